"""Simplified Chinese: notes and errors by code."""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    # -- why this model, and the verdict -----------------------------------------------------------
    # -- a model's merits and risks ----------------------------------------------------------------
    # -- what was found about the PC ---------------------------------------------------------------
    # -- notices of a download plan ----------------------------------------------------------------
    "note.revision_replaced": "{repository} 已替换我们所知的版本（{revision}）。校验和相同的文件将从当前版本获取。",
    "note.found_on_disk": "{path} 中的 {file} 就是需要的文件，不会再次下载。",
    "note.found_but_different": "{path} 中的 {file} 与需要的文件相似但内容不同，不会使用。",
    "note.draft_head_built": "{file} 将用原始模型中的 {fetch_bytes:size} 在本机生成。",
    "note.must_download_again": "{path} 中的 {file} 在另一个驱动器上，无法共用，因此要再次下载。",
    "note.not_verified": "{path} 中的 {file} 将按原样使用：无法查询它的校验和。",
    # -- errors ------------------------------------------------------------------------------------
    "error.catalog_mistake": "{file} 有错误：{key}（{reason}）。请更正，或从发布包中重新获取 models.json。",
    "error.checkpoint_damaged": "原始模型中的 {file} 与应有的内容不符（{reason}）。请选择其他镜像，或不用草稿头继续。",
    "error.checksum": "{file} 从 {host} 下载了两次，内容都与校验和不符。请选择其他镜像，或稍后重试。",
    "error.child_not_started": "无法启动引擎（{reason}）。请重新运行安装程序。",
    "error.clock_wrong": "按这台电脑的时间，{host} 的证书无效。请校准日期和时间，然后重试。",
    "error.connection_lost": "与 {host} 的连接中断。下载会从中断处继续。",
    "error.disk_failed": "无法读写 {path}（{reason}）。请检查驱动器，或选择其他文件夹。",
    "error.disk_full": "{path} 所在的驱动器已满。请清理空间后继续；已下载的内容会保留。",
    "error.disk_short": "{path} 所在的驱动器剩余 {free_bytes:size}；下载需要 {needed_bytes:size}，还差 {missing_bytes:size}。请选择其他文件夹或较小的模型，或清理空间。",
    "error.download_busy": "另一个安装程序（进程 {pid}）正在下载到 {path}。请等它完成，或关闭它。",
    "error.download_cancelled": "下载已取消，已下载的内容已删除。",
    "error.download_failed": "下载无法继续。已下载的内容会保留；请重试。",
    "error.download_stopped": "下载已停止。再次开始时会从那里继续。",
    "error.draft_head_failed": "无法生成草稿头 {file}（{reason}）。请重试，或不用草稿头继续。",
    "error.drive_gone": "无法再访问 {path}。请重新连接其驱动器，或选择其他文件夹，然后继续。",
    "error.endpoint_unusable": "{endpoint} 不是镜像地址。请输入以 https:// 开头的地址，或留空。",
    "error.file_held": "另一个程序（通常是杀毒软件）占用了 {path}。请等它完成，或在那里把此文件夹设为例外，然后继续。",
    "error.file_not_readable": "无法读取 {path}。请检查路径。",
    "error.file_not_writable": "无法写入 {path}。请清理空间，或选择属于您的文件夹。",
    "error.file_too_large_for_drive": "{path} 所在的驱动器放不下这么大的文件（FAT32 的上限是 4 GB）。请选择其他驱动器上的文件夹。",
    "error.folder_read_only": "无法写入 {path}（{reason}）。请选择属于您的文件夹。",
    "error.format_too_new": "{path} 由更新版本的 Stratum 写入（格式 {found}，此版本最多读取 {newest}）。请更新 Stratum。",
    "error.gated": "{host} 只向有账号并接受其条款的人提供此模型。请在其网页上接受条款，创建访问令牌，并在选项中输入。",
    "error.hub_answer": "{host} 的答复在这里没有意义。它可能是此网络的登录页面。请选择其他镜像，或登录此网络后重试。",
    "error.hub_busy": "{host} 要求稍候，因为此地址的请求太多。请几分钟后重试。",
    "error.hub_down": "{host} 自身出现问题。请稍后重试，或选择其他镜像。",
    "error.hub_file_changed": "{host} 上的 {file} 与此版本所知的不同。请更新 Stratum，或选择其他镜像。",
    "error.hub_file_missing": "{host} 上没有 {file}。请更新 Stratum，或选择其他模型。",
    "error.install_failed": "安装没有成功。请重试。",
    "error.login_start_failed": "无法更改登录时启动的设置（{reason}）。其他一切正常。",
    "error.login_page": "收到的是网页，而不是 {file}：此网络可能要求登录。请登录后重试。",
    "error.mirror_ignores_range": "{host} 不能发送 {file} 的一部分，因此无法从中断处继续。请选择其他镜像。",
    "error.model_unknown": "没有模型 {model}。可选：{known}。",
    "error.no_network": "无法访问 {host}。请检查网络连接，或选择镜像。",
    "error.preparation_failed": "无法准备下载的内容。请重试。",
    "error.proxy_login": "此网络的代理要求用户名和密码才能访问 {host}。请在选项中输入 http://用户名:密码@代理:端口。",
    "error.proxy_unreachable": "此网络的代理不允许访问 {host}。请检查系统设置中的代理。",
    "error.proxy_unusable": "代理地址无效。请输入 http://用户名:密码@代理:端口，或留空使用系统代理。",
    "error.repository_missing": "{host} 上没有 {repository}，或此账号无权访问。请选择其他镜像，或更新 Stratum。",
    "error.revision_missing": "{host} 上已没有 {repository} 的所需版本（{revision}）。请更新 Stratum，或选择其他镜像。",
    "error.stalled": "{host} 已有一段时间没有发送数据。恢复后下载会继续。",
    "error.tls_intercepted": "与 {host} 的连接不安全：中间有程序（杀毒软件或公司网络）用这台电脑不信任的证书应答。请在那里放行，或安装该证书。",
    "error.token_refused": "{host} 不接受用于 {repository} 的访问令牌。请检查后重新输入。",
    "error.tuning_failed": "测量失败（{reason}）。Stratum 使用自己的估计；以后可以再测量。",
    "error.unexpected": "发生了意外情况（{reason}）。请重试；详细信息在日志中。",
    "error.engine_running": "Stratum 的服务器正在运行（进程 {pid}），会干扰测量。请停止它，然后重新测量。",
}
