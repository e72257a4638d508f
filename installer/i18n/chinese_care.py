"""Simplified Chinese: updating, repairing, removing. `english_care.py` has the same keys."""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    # -- a newer version ---------------------------------------------------------------------------
    "update.updated": "Stratum 已更新到 {version}。之前的版本会保留。",
    "update.kept_former": "{new} 版本没有通过自检（{reason}）。现在启动的是 {root} 中的 {version} 版本；您的数据没有变动。",
    "update.put_back": "{new} 版本没有通过自检（{reason}）。已恢复 {version} 版本，请重新启动 Stratum。您的数据没有变动。",
    "update.failed": "此版本没有通过自检（{reason}）。请用 --repair 运行安装程序。",
    # -- repair ------------------------------------------------------------------------------------
    "repair.start": "正在检查所有已安装的内容……",
    "repair.nothing": "还没有安装模型；请不带 --repair 运行安装程序来安装。",
    "repair.model_well": "{title}：全部 {num_files} 个文件完好。",
    "repair.model_repaired": "{title}：{files} 已重新下载，现在完好。",
    "repair.model_bad": "{title}：{files} 未能修复。{reason}",
    "repair.program_well": "程序文件完好。",
    "repair.program_bad": "程序文件缺失或被改动：{files}。请把发行包重新解压到此文件夹。",
    "repair.config_aside": "运行配置 {file} 无法读取，已另存为 .bak。请再次运行安装程序以重新生成。",
    "repair.engine_well": "引擎通过了自检。",
    "repair.engine_bad": "引擎没有通过自检：{reason}",
    "repair.done": "一切正常。",
    "repair.not_done": "仍有问题，请看上面的说明。",
    # -- uninstall ---------------------------------------------------------------------------------
    "remove.intro": "已安装的内容：",
    "remove.program": "程序及其软件包：{num_bytes:size}",
    "remove.models": "模型及其设置：{num_bytes:size}",
    "remove.chats": "聊天记录：{num_bytes:size}",
    "remove.other": "缓存、日志和旧版本：{num_bytes:size}",
    "remove.settings": "设置：{num_bytes:size}",
    "remove.entries": "菜单条目：{count}",
    "remove.item": "    {name}，{num_bytes:size}",
    "remove.ask": "要移除 Stratum 吗？输入 y 并按回车：",
    "remove.ask_models": "同时移除模型（{num_bytes:size}）吗？以后安装时需要重新下载。输入 y 并按回车即移除：",
    "remove.ask_chats": "同时移除聊天记录吗？移除后无法恢复。输入 y 并按回车即移除：",
    "remove.not_confirmed": "没有移除任何内容。",
    "remove.needs_yes": "这里无法提问。加上 --yes 可移除 Stratum，并保留模型和聊天记录。",
    "remove.done": "Stratum 已移除。",
    "remove.kept": "保留在 {path}：{num_bytes:size}。以后安装时会自动找到。",
    "remove.strangers": "{path} 中的这些文件不属于 Stratum，会保留：{names}",
    "remove.problem": "{reason}。请手动删除。",
}
