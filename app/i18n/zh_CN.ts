<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
<context>
    <name>AboutDialog</name>
    <message>
        <source>About Stratum</source>
        <translation>关于 Stratum</translation>
    </message>
    <message>
        <source>A large language model on this PC</source>
        <translation>在这台电脑上运行的大语言模型</translation>
    </message>
    <message>
        <source>Version</source>
        <translation>版本</translation>
    </message>
    <message>
        <source>System</source>
        <translation>系统</translation>
    </message>
    <message>
        <source>Program</source>
        <translation>程序</translation>
    </message>
    <message>
        <source>Models and chats</source>
        <translation>模型和对话</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
    <message>
        <source>Logs</source>
        <translation>日志</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>许可证</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>Open folder</source>
        <translation>打开文件夹</translation>
    </message>
    <message>
        <source>Open folder {folder}</source>
        <translation>打开文件夹 {folder}</translation>
    </message>
</context>
<context>
    <name>AppSwitches</name>
    <message>
        <source>Start</source>
        <translation>启动</translation>
    </message>
    <message>
        <source>Beside the clock</source>
        <translation>系统托盘</translation>
    </message>
    <message>
        <source>Notifications</source>
        <translation>通知</translation>
    </message>
    <message>
        <source>Language and colours</source>
        <translation>语言和颜色</translation>
    </message>
    <message>
        <source>Start Stratum when I log in</source>
        <translation>登录时启动 Stratum</translation>
    </message>
    <message>
        <source>Start the model together with Stratum</source>
        <translation>随 Stratum 一起启动模型</translation>
    </message>
    <message>
        <source>Show a sign beside the clock</source>
        <translation>在系统托盘中显示图标</translation>
    </message>
    <message>
        <source>Closing the window leaves the sign and the model</source>
        <translation>关闭窗口后保留托盘图标和模型</translation>
    </message>
    <message>
        <source>When the model is ready</source>
        <translation>模型就绪时</translation>
    </message>
    <message>
        <source>When a long answer has ended and no window is in front</source>
        <translation>较长的回答完成且窗口不在前台时</translation>
    </message>
    <message>
        <source>When something fails</source>
        <translation>出现问题时</translation>
    </message>
    <message>
        <source>It then starts beside the clock, without a window.</source>
        <translation>届时只在系统托盘中启动，不显示窗口。</translation>
    </message>
    <message>
        <source>&amp;Language</source>
        <translation>语言(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Colours</source>
        <translation>颜色(&amp;C)</translation>
    </message>
    <message>
        <source>As the system</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>浅色</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>深色</translation>
    </message>
    <message>
        <source>Without the sign, closing the window quits.</source>
        <translation>没有托盘图标时，关闭窗口即退出。</translation>
    </message>
    <message>
        <source>This copy keeps everything in its own folder and changes no system.</source>
        <translation>此副本将所有内容保存在自己的文件夹中，不更改系统。</translation>
    </message>
</context>
<context>
    <name>Banner</name>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Add a model…</source>
        <translation>添加模型…</translation>
    </message>
    <message>
        <source>Use port {port}</source>
        <translation>改用端口 {port}</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>重试</translation>
    </message>
    <message>
        <source>Show log</source>
        <translation>查看日志</translation>
    </message>
</context>
<context>
    <name>ChatPane</name>
    <message>
        <source>What shall we talk about?</source>
        <translation>想聊些什么？</translation>
    </message>
    <message>
        <source>Conversations (Ctrl+B)</source>
        <translation>对话列表 (Ctrl+B)</translation>
    </message>
    <message>
        <source>Settings of this conversation (Ctrl+.)</source>
        <translation>此对话的设置 (Ctrl+.)</translation>
    </message>
    <message>
        <source>Context: {0} tokens</source>
        <translation>上下文：{0} 个词元</translation>
    </message>
    <message>
        <source>New conversation</source>
        <translation>新对话</translation>
    </message>
    <message>
        <source>Attach files</source>
        <translation>添加文件</translation>
    </message>
    <message>
        <source>A new version of the answer; the old one is kept</source>
        <translation>回答的新版本；旧版本会保留</translation>
    </message>
    <message>
        <source>A new version of your message; the old one is kept</source>
        <translation>您的消息的新版本；旧版本会保留</translation>
    </message>
</context>
<context>
    <name>ChatPresets</name>
    <message>
        <source>Balanced</source>
        <translation>均衡</translation>
    </message>
    <message>
        <source>Precise</source>
        <translation>精确</translation>
    </message>
    <message>
        <source>Creative</source>
        <translation>创意</translation>
    </message>
    <message>
        <source>Quick</source>
        <translation>快速</translation>
    </message>
    <message>
        <source>What the model&apos;s authors recommend.</source>
        <translation>模型作者推荐的设置。</translation>
    </message>
    <message>
        <source>For facts, code and calculations: the likeliest words, and time to think.</source>
        <translation>适合事实、代码和计算：选最可能的词，并有时间思考。</translation>
    </message>
    <message>
        <source>For stories and ideas: less likely words too.</source>
        <translation>适合故事和点子：也选用不太常见的词。</translation>
    </message>
    <message>
        <source>Answers at once, without thinking.</source>
        <translation>不思考，立即回答。</translation>
    </message>
</context>
<context>
    <name>ChatProblems</name>
    <message>
        <source>The answer ended while the model was still thinking. The thinking is above; “Another answer” tries again.</source>
        <translation>模型还在思考时回答就结束了。思考内容在上方；点“另一个回答”可以再试一次。</translation>
    </message>
    <message>
        <source>The context is full. Begin a new conversation, or choose a larger context in the settings.</source>
        <translation>上下文已满。请新建对话，或在设置中选择更大的上下文。</translation>
    </message>
    <message>
        <source>The model has called tools as often as is allowed for one answer.</source>
        <translation>模型在一次回答中调用工具的次数已达上限。</translation>
    </message>
    <message>
        <source>The answer was ended because the model repeated itself.</source>
        <translation>模型不断重复，回答已被结束。</translation>
    </message>
    <message>
        <source>The PDF is very long; only its beginning is attached.</source>
        <translation>这个 PDF 很长，只添加了开头部分。</translation>
    </message>
    <message>
        <source>Some pages have no text (scanned pictures); they are left out.</source>
        <translation>有些页面没有文字（扫描图片），已略过。</translation>
    </message>
    <message>
        <source>There is nothing to send yet.</source>
        <translation>还没有可以发送的内容。</translation>
    </message>
    <message>
        <source>There is no message to answer.</source>
        <translation>没有可以回答的消息。</translation>
    </message>
    <message>
        <source>This message is complete.</source>
        <translation>这条消息已经完整。</translation>
    </message>
    <message>
        <source>An answer is being made. Stop it, or wait for its end.</source>
        <translation>正在生成回答。请先停止，或等它结束。</translation>
    </message>
    <message>
        <source>A file is still being read. Wait a moment.</source>
        <translation>还有文件正在读取，请稍候。</translation>
    </message>
    <message>
        <source>{name} is a folder. Attach the files that are in it.</source>
        <translation>{name} 是一个文件夹。请添加其中的文件。</translation>
    </message>
    <message>
        <source>{name} cannot be read. Check that it is still there and belongs to you.</source>
        <translation>无法读取 {name}。请检查它是否还在，以及您是否有权限。</translation>
    </message>
    <message>
        <source>{name} is empty.</source>
        <translation>{name} 是空的。</translation>
    </message>
    <message>
        <source>{name} is too large: {size_bytes} bytes; at most {limit_bytes} can be attached. Attach the part that matters.</source>
        <translation>{name} 太大：{size_bytes} 字节，最多可添加 {limit_bytes} 字节。请只添加需要的部分。</translation>
    </message>
    <message>
        <source>{name} is an office document, which cannot be read. Save it as PDF or as text, and attach that.</source>
        <translation>{name} 是 Office 文档，无法读取。请另存为 PDF 或文本后再添加。</translation>
    </message>
    <message>
        <source>{name} is neither text nor PDF. Only text, code, PDF and pictures can be attached.</source>
        <translation>{name} 既不是文本也不是 PDF。只能添加文本、代码、PDF 和图片。</translation>
    </message>
    <message>
        <source>This is no picture that can be read. JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC and AVIF can.</source>
        <translation>这不是可以读取的图片。支持 JPEG、PNG、WebP、GIF、BMP、TIFF、HEIC 和 AVIF。</translation>
    </message>
    <message>
        <source>This model runs without its image encoder, so it cannot see pictures. Describe the picture in words, or copy its text.</source>
        <translation>此模型没有加载图像编码器，看不到图片。请用文字描述图片，或复制其中的文字。</translation>
    </message>
    <message>
        <source>{name} is protected by a password. Save it without one, and attach that.</source>
        <translation>{name} 有密码保护。请另存为没有密码的文件后再添加。</translation>
    </message>
    <message>
        <source>{name} has no text in it; its pages are pictures, as from a scanner. Run a text recognition over it first.</source>
        <translation>{name} 中没有文字，页面都是图片（例如扫描件）。请先进行文字识别。</translation>
    </message>
    <message>
        <source>{name} is damaged and cannot be read. Open it in a PDF viewer, save it again, and attach that.</source>
        <translation>{name} 已损坏，无法读取。请用 PDF 阅读器打开并重新保存后再添加。</translation>
    </message>
    <message>
        <source>The engine does not run. Start it, and try again.</source>
        <translation>引擎没有运行。请先启动它，然后重试。</translation>
    </message>
    <message>
        <source>The engine cannot be reached. Start it, and try again.</source>
        <translation>无法连接引擎。请先启动它，然后重试。</translation>
    </message>
    <message>
        <source>The engine did not answer in time. Try again; if it goes on, restart the engine.</source>
        <translation>引擎没有及时响应。请重试；如果一直如此，请重启引擎。</translation>
    </message>
    <message>
        <source>The engine went away in the middle of its answer. What had arrived is kept; “Continue” goes on with it.</source>
        <translation>引擎在回答途中退出了。已收到的内容已保留，点“继续”可以接着写。</translation>
    </message>
    <message>
        <source>The engine failed. What had arrived is kept; “Continue” goes on with it. The log says more.</source>
        <translation>引擎出错了。已收到的内容已保留，点“继续”可以接着写。日志中有更多信息。</translation>
    </message>
    <message>
        <source>What answers at {url} is not Stratum&apos;s engine. Another program uses its port.</source>
        <translation>在 {url} 应答的不是 Stratum 的引擎。有别的程序占用了它的端口。</translation>
    </message>
    <message>
        <source>The conversation is too long for the model: {n_prompt_tokens} tokens, and its context has {n_ctx}. Begin a new conversation, remove attachments, or choose a larger context in the settings.</source>
        <translation>对话对模型来说太长了：{n_prompt_tokens} 个词元，而上下文只有 {n_ctx} 个。请新建对话、移除附件，或在设置中选择更大的上下文。</translation>
    </message>
    <message>
        <source>The engine asks for another key. Restart it, or put the key right in the settings.</source>
        <translation>引擎要求另一个密钥。请重启引擎，或在设置中改正密钥。</translation>
    </message>
    <message>
        <source>Too many requests wait already. Try again in a moment.</source>
        <translation>等待的请求太多了。请稍后再试。</translation>
    </message>
    <message>
        <source>The request waited too long behind others. Try again.</source>
        <translation>请求排队等待太久。请重试。</translation>
    </message>
    <message>
        <source>Other programs use the graphics card&apos;s memory. Close them, and try again.</source>
        <translation>其他程序占用了显存。请关闭它们，然后重试。</translation>
    </message>
    <message>
        <source>The model could not be loaded. The log says why.</source>
        <translation>模型无法加载。原因请看日志。</translation>
    </message>
    <message>
        <source>The message is too large to be sent. Remove an attachment.</source>
        <translation>消息太大，无法发送。请移除一个附件。</translation>
    </message>
    <message>
        <source>A picture cannot be read. Remove it, and try again.</source>
        <translation>有一张图片无法读取。请移除它，然后重试。</translation>
    </message>
    <message>
        <source>The engine is being stopped. Start it again, and repeat the question.</source>
        <translation>引擎正在停止。请重新启动它，再问一次。</translation>
    </message>
    <message>
        <source>The conversation is not saved: the disk with {path} is full. It stays here, and is saved as soon as there is room.</source>
        <translation>对话没有保存：{path} 所在的磁盘已满。内容仍在这里，一有空间就会保存。</translation>
    </message>
    <message>
        <source>The conversation is not saved: {path} cannot be written ({reason}). It stays here, and is saved as soon as that is possible.</source>
        <translation>对话没有保存：无法写入 {path}（{reason}）。内容仍在这里，可以写入时就会保存。</translation>
    </message>
    <message>
        <source>The conversation is not saved yet: another program holds {path}. It stays here, and is saved as soon as that program lets go.</source>
        <translation>对话还没有保存：另一个程序占用了 {path}。内容仍在这里，占用解除后就会保存。</translation>
    </message>
    <message>
        <source>The conversation is not saved ({reason}). It stays here, and saving is tried again.</source>
        <translation>对话没有保存（{reason}）。内容仍在这里，会再次尝试保存。</translation>
    </message>
    <message>
        <source>The conversations in {path} cannot be read ({reason}). Try again.</source>
        <translation>无法读取 {path} 中的对话（{reason}）。请重试。</translation>
    </message>
    <message>
        <source>The file with the conversations was damaged. All {conversations} conversations could be read; the damaged file is kept as {aside}.</source>
        <translation>保存对话的文件曾损坏。全部 {conversations} 个对话都已读出；损坏的文件保留为 {aside}。</translation>
    </message>
    <message>
        <source>The file with the conversations was damaged. {conversations} conversations with {messages} messages could be saved from it, others are lost. The damaged file is kept as {aside}.</source>
        <translation>保存对话的文件曾损坏。已从中救回 {conversations} 个对话、{messages} 条消息，其余已丢失。损坏的文件保留为 {aside}。</translation>
    </message>
    <message>
        <source>The conversations were written by a newer version of Stratum. Until it is updated, conversations are kept in {elsewhere}.</source>
        <translation>对话是由更新版本的 Stratum 写入的。在更新之前，对话保存在 {elsewhere}。</translation>
    </message>
    <message>
        <source>The file with the conversations, {path}, cannot be opened ({reason}). Until then conversations are kept in {elsewhere}.</source>
        <translation>无法打开保存对话的文件 {path}（{reason}）。在此之前，对话保存在 {elsewhere}。</translation>
    </message>
    <message>
        <source>{path} cannot be imported. Choose a Markdown file or one that Stratum has exported.</source>
        <translation>无法导入 {path}。请选择 Markdown 文件或 Stratum 导出的文件。</translation>
    </message>
    <message>
        <source>{path} was written by a newer version of Stratum. Update Stratum to import it.</source>
        <translation>{path} 是由更新版本的 Stratum 写入的。请更新 Stratum 后再导入。</translation>
    </message>
    <message>
        <source>Something unexpected happened ({reason}). Try again; the log has the details.</source>
        <translation>发生了意外（{reason}）。请重试；日志中有详细信息。</translation>
    </message>
</context>
<context>
    <name>ChatView</name>
    <message>
        <source>Everything is saved again.</source>
        <translation>所有内容都已重新保存。</translation>
    </message>
    <message>
        <source>Conversations</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Writing</source>
        <translation>书写</translation>
    </message>
    <message>
        <source>Answers</source>
        <translation>回答</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>阅读</translation>
    </message>
    <message>
        <source>New conversation</source>
        <translation>新建对话</translation>
    </message>
    <message>
        <source>Search conversations</source>
        <translation>搜索对话</translation>
    </message>
    <message>
        <source>Next conversation</source>
        <translation>下一个对话</translation>
    </message>
    <message>
        <source>Previous conversation</source>
        <translation>上一个对话</translation>
    </message>
    <message>
        <source>Rename the conversation</source>
        <translation>重命名对话</translation>
    </message>
    <message>
        <source>Delete the conversation</source>
        <translation>删除对话</translation>
    </message>
    <message>
        <source>Export as Markdown</source>
        <translation>导出为 Markdown</translation>
    </message>
    <message>
        <source>Show or hide the list</source>
        <translation>显示或隐藏列表</translation>
    </message>
    <message>
        <source>Settings of this conversation</source>
        <translation>此对话的设置</translation>
    </message>
    <message>
        <source>This overview</source>
        <translation>本说明</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>发送</translation>
    </message>
    <message>
        <source>New line</source>
        <translation>换行</translation>
    </message>
    <message>
        <source>Go to the message field</source>
        <translation>转到消息输入框</translation>
    </message>
    <message>
        <source>Attach files</source>
        <translation>添加文件</translation>
    </message>
    <message>
        <source>Edit the last message (in an empty field)</source>
        <translation>编辑上一条消息（输入框为空时）</translation>
    </message>
    <message>
        <source>Edit the last message</source>
        <translation>编辑上一条消息</translation>
    </message>
    <message>
        <source>Stop the answer</source>
        <translation>停止回答</translation>
    </message>
    <message>
        <source>Answer now, without more thinking</source>
        <translation>立即回答，不再思考</translation>
    </message>
    <message>
        <source>Another answer</source>
        <translation>另一个回答</translation>
    </message>
    <message>
        <source>Continue the answer</source>
        <translation>继续回答</translation>
    </message>
    <message>
        <source>Older version</source>
        <translation>较早的版本</translation>
    </message>
    <message>
        <source>Newer version</source>
        <translation>较新的版本</translation>
    </message>
    <message>
        <source>Copy the answer</source>
        <translation>复制回答</translation>
    </message>
    <message>
        <source>Copy the last code block</source>
        <translation>复制最后一个代码块</translation>
    </message>
    <message>
        <source>Show or hide the thinking</source>
        <translation>显示或隐藏思考</translation>
    </message>
    <message>
        <source>Previous message</source>
        <translation>上一条消息</translation>
    </message>
    <message>
        <source>Next message</source>
        <translation>下一条消息</translation>
    </message>
    <message>
        <source>Go to the end</source>
        <translation>转到末尾</translation>
    </message>
    <message>
        <source>What can be done with the chosen message</source>
        <translation>对选中的消息可以做什么</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>全选</translation>
    </message>
    <message>
        <source>Copy the selection, or the chosen message</source>
        <translation>复制选中内容或选中的消息</translation>
    </message>
</context>
<context>
    <name>ChatWords</name>
    <message>
        <source>{0} s</source>
        <translation>{0} 秒</translation>
    </message>
    <message>
        <source>{0} min {1} s</source>
        <translation>{0} 分 {1} 秒</translation>
    </message>
    <message>
        <source>{0} tokens</source>
        <translation>{0} 个词元</translation>
    </message>
    <message>
        <source>Reading {0} of {1} tokens</source>
        <translation>正在读取 {0} / {1} 个词元</translation>
    </message>
    <message>
        <source>Writing a call to {0}</source>
        <translation>正在编写对 {0} 的调用</translation>
    </message>
    <message>
        <source>{0} is at work</source>
        <translation>{0} 正在运行</translation>
    </message>
    <message>
        <source>{0} asks for your consent</source>
        <translation>{0} 请求您的同意</translation>
    </message>
    <message>
        <source>Waiting: another answer comes first</source>
        <translation>等待中：另一个回答在前面</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>正在读取</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>正在思考</translation>
    </message>
    <message>
        <source>Answering</source>
        <translation>正在回答</translation>
    </message>
    <message>
        <source>Stopping</source>
        <translation>正在停止</translation>
    </message>
    <message>
        <source>The model is loading: {0} %</source>
        <translation>模型正在加载：{0} %</translation>
    </message>
    <message>
        <source>The model is stopped. The answer begins when it is started.</source>
        <translation>模型已停止。启动后开始回答。</translation>
    </message>
    <message>
        <source>The model is starting</source>
        <translation>模型正在启动</translation>
    </message>
    <message>
        <source>The model is starting again after it ended</source>
        <translation>模型意外退出，正在重新启动</translation>
    </message>
    <message>
        <source>The model is busy; trying again</source>
        <translation>模型正忙，正在重试</translation>
    </message>
    <message>
        <source>Waiting for the model</source>
        <translation>正在等待模型</translation>
    </message>
    <message>
        <source>{0} tokens/s</source>
        <translation>{0} 词元/秒</translation>
    </message>
    <message>
        <source>context {0} of {1}</source>
        <translation>上下文 {0} / {1}</translation>
    </message>
    <message>
        <source>context {0}</source>
        <translation>上下文 {0}</translation>
    </message>
    <message>
        <source>drafts {0} %</source>
        <translation>草稿命中 {0} %</translation>
    </message>
    <message>
        <source>Model: {0}</source>
        <translation>模型：{0}</translation>
    </message>
    <message>
        <source>Prompt: {0} tokens, {1} of them remembered</source>
        <translation>提示：{0} 个词元，其中 {1} 个已记住</translation>
    </message>
    <message>
        <source>Reading: {0}, {1}</source>
        <translation>读取：{0}，{1}</translation>
    </message>
    <message>
        <source>Answer: {0} tokens, {1} of them thinking</source>
        <translation>回答：{0} 个词元，其中思考 {1} 个</translation>
    </message>
    <message>
        <source>Writing: {0}, {1}</source>
        <translation>书写：{0}，{1}</translation>
    </message>
    <message>
        <source>Drafts: {0} of {1} accepted</source>
        <translation>草稿：{1} 个中采纳 {0} 个</translation>
    </message>
    <message>
        <source>Thinking level: {0}</source>
        <translation>思考程度：{0}</translation>
    </message>
    <message>
        <source>Sampling: {0}</source>
        <translation>采样：{0}</translation>
    </message>
    <message>
        <source>No thinking</source>
        <translation>不思考</translation>
    </message>
    <message>
        <source>Short</source>
        <translation>简短</translation>
    </message>
    <message>
        <source>Medium</source>
        <translation>中等</translation>
    </message>
    <message>
        <source>Thorough</source>
        <translation>深入</translation>
    </message>
    <message>
        <source>Show less</source>
        <translation>收起</translation>
    </message>
    <message>
        <source>Show all ({0} characters)</source>
        <translation>显示全部（{0} 个字符）</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>Write a message</source>
        <translation>输入消息</translation>
    </message>
    <message>
        <source>Message</source>
        <translation>消息</translation>
    </message>
    <message>
        <source>Attach files (Ctrl+O)</source>
        <translation>添加文件 (Ctrl+O)</translation>
    </message>
    <message>
        <source>How thoroughly the model thinks before it answers</source>
        <translation>模型在回答前思考的深入程度</translation>
    </message>
    <message>
        <source>Do not edit (Escape)</source>
        <translation>放弃编辑 (Esc)</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>发送 (Enter)</translation>
    </message>
    <message>
        <source>Stop the answer (Escape)</source>
        <translation>停止回答 (Esc)</translation>
    </message>
    <message>
        <source>Remove {0}</source>
        <translation>移除 {0}</translation>
    </message>
    <message numerus="yes">
        <source>%n file(s) being read</source>
        <translation>
            <numerusform>正在读取 %n 个文件</numerusform>
        </translation>
    </message>
    <message>
        <source>Standard ({0})</source>
        <translation>标准（{0}）</translation>
    </message>
    <message>
        <source>Thinking: {0}</source>
        <translation>思考：{0}</translation>
    </message>
</context>
<context>
    <name>ConversationList</name>
    <message>
        <source>Search conversations</source>
        <translation>搜索对话</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>新对话</translation>
    </message>
    <message>
        <source>New conversation (Ctrl+N)</source>
        <translation>新建对话 (Ctrl+N)</translation>
    </message>
    <message>
        <source>Export and import</source>
        <translation>导出和导入</translation>
    </message>
    <message>
        <source>Import conversations…</source>
        <translation>导入对话…</translation>
    </message>
    <message>
        <source>Export all conversations…</source>
        <translation>导出所有对话…</translation>
    </message>
    <message>
        <source>Conversations</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Your conversations will be listed here.</source>
        <translation>您的对话会列在这里。</translation>
    </message>
    <message>
        <source>Nothing found.</source>
        <translation>没有找到。</translation>
    </message>
    <message>
        <source>“{0}” was deleted</source>
        <translation>已删除“{0}”</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
    </message>
    <message>
        <source>Rename (F2)</source>
        <translation>重命名 (F2)</translation>
    </message>
    <message>
        <source>Export as Markdown…</source>
        <translation>导出为 Markdown…</translation>
    </message>
    <message>
        <source>Export as JSON…</source>
        <translation>导出为 JSON…</translation>
    </message>
    <message>
        <source>Delete (Del)</source>
        <translation>删除 (Del)</translation>
    </message>
    <message>
        <source>Markdown (*.md)</source>
        <translation>Markdown (*.md)</translation>
    </message>
    <message>
        <source>Conversations (*.json)</source>
        <translation>对话 (*.json)</translation>
    </message>
    <message>
        <source>Import conversations</source>
        <translation>导入对话</translation>
    </message>
    <message>
        <source>Conversations (*.json *.md)</source>
        <translation>对话 (*.json *.md)</translation>
    </message>
    <message>
        <source>Export</source>
        <translation>导出</translation>
    </message>
    <message numerus="yes">
        <source>%n conversation(s) imported</source>
        <translation>
            <numerusform>已导入 %n 个对话</numerusform>
        </translation>
    </message>
    <message>
        <source>Exported to {0}</source>
        <translation>已导出到 {0}</translation>
    </message>
</context>
<context>
    <name>ConversationModel</name>
    <message>
        <source>New conversation</source>
        <translation>新对话</translation>
    </message>
</context>
<context>
    <name>EngineCard</name>
    <message>
        <source>Stop model</source>
        <translation>停止模型</translation>
    </message>
    <message>
        <source>Start model</source>
        <translation>启动模型</translation>
    </message>
</context>
<context>
    <name>Errors</name>
    <message>
        <source>Stratum runs already, but does not answer. Wait a moment, or end it in the task manager, and start it again.</source>
        <translation>Stratum 已在运行，但没有响应。请稍等片刻，或在任务管理器中结束它后重新启动。</translation>
    </message>
    <message>
        <source>A setting has a value that cannot be used: {message}</source>
        <translation>某项设置的值无法使用：{message}</translation>
    </message>
    <message>
        <source>A program cannot be started ({reason}). Run setup again.</source>
        <translation>无法启动程序（{reason}）。请重新运行安装。</translation>
    </message>
    <message>
        <source>The context of {context} tokens is longer than the model&apos;s {trained}. Choose at most that.</source>
        <translation>{context} 个词元的上下文超过了模型的 {trained}。请选择不超过该值的长度。</translation>
    </message>
    <message>
        <source>The engine went away in the middle of its answer.</source>
        <translation>引擎在回答过程中断开了。</translation>
    </message>
    <message>
        <source>The engine does not run. Start it, and try again.</source>
        <translation>引擎没有运行。请启动后重试。</translation>
    </message>
    <message>
        <source>The engine at {url} did not answer in time. Try again; if it goes on, restart the engine.</source>
        <translation>位于 {url} 的引擎没有及时响应。请重试；如果仍然如此，请重新启动引擎。</translation>
    </message>
    <message>
        <source>The engine at {url} cannot be reached. Start it, and try again.</source>
        <translation>无法连接位于 {url} 的引擎。请启动后重试。</translation>
    </message>
    <message>
        <source>{path} cannot be read. Check that it is there and belongs to you.</source>
        <translation>无法读取 {path}。请检查它是否存在以及您是否有权限。</translation>
    </message>
    <message>
        <source>{path} cannot be written. Free some space or choose a folder that belongs to you.</source>
        <translation>无法写入 {path}。请释放一些空间，或选择您有权限的文件夹。</translation>
    </message>
    <message>
        <source>The folder {path} belongs to somebody else, or others can write in it. Remove it and start again.</source>
        <translation>文件夹 {path} 属于其他人，或其他人可以写入。请将其删除后重新启动。</translation>
    </message>
    <message>
        <source>{path} was written by a newer version of Stratum (format {found}; this one reads up to {newest}). Update Stratum.</source>
        <translation>{path} 由更新版本的 Stratum 写入（格式 {found}；此版本最多支持 {newest}）。请更新 Stratum。</translation>
    </message>
    <message>
        <source>Starting at login could not be changed ({reason}). Everything else works.</source>
        <translation>无法更改登录时启动的设置（{reason}）。其他一切正常。</translation>
    </message>
    <message>
        <source>What answers at {url} is not Stratum&apos;s engine.</source>
        <translation>在 {url} 应答的不是 Stratum 的引擎。</translation>
    </message>
    <message>
        <source>Something unexpected happened ({reason}). The log has the details.</source>
        <translation>发生意外错误（{reason}）。详情见日志。</translation>
    </message>
</context>
<context>
    <name>Footer</name>
    <message>
        <source>Older version</source>
        <translation>较早的版本</translation>
    </message>
    <message>
        <source>Version {0} of {1}</source>
        <translation>第 {0} 版，共 {1} 版</translation>
    </message>
    <message>
        <source>Newer version</source>
        <translation>较新的版本</translation>
    </message>
    <message>
        <source>Continue this answer</source>
        <translation>继续这个回答</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>继续</translation>
    </message>
    <message>
        <source>Copy this message</source>
        <translation>复制这条消息</translation>
    </message>
    <message>
        <source>Edit this message</source>
        <translation>编辑这条消息</translation>
    </message>
    <message>
        <source>Another answer</source>
        <translation>另一个回答</translation>
    </message>
    <message>
        <source>New conversation from here</source>
        <translation>从这里新建对话</translation>
    </message>
</context>
<context>
    <name>KeyOverview</name>
    <message>
        <source>Keyboard</source>
        <translation>键盘</translation>
    </message>
</context>
<context>
    <name>LogWindow</name>
    <message>
        <source>Stratum: log</source>
        <translation>Stratum：日志</translation>
    </message>
    <message>
        <source>Log</source>
        <translation>日志</translation>
    </message>
    <message>
        <source>Nothing has been written yet.</source>
        <translation>还没有任何记录。</translation>
    </message>
    <message>
        <source>Copy all</source>
        <translation>全部复制</translation>
    </message>
    <message>
        <source>Open folder</source>
        <translation>打开文件夹</translation>
    </message>
</context>
<context>
    <name>MainWindow</name>
    <message>
        <source>This view cannot be opened ({reason}). Run setup again.</source>
        <translation>无法打开此页面（{reason}）。请重新运行安装程序。</translation>
    </message>
</context>
<context>
    <name>ModelPanel</name>
    <message>
        <source>Where the model lives</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Since the engine was started</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>MonitorView</name>
    <message>
        <source>Last requests</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>NoticeBar</name>
    <message>
        <source>Close this notice</source>
        <translation>关闭此提示</translation>
    </message>
</context>
<context>
    <name>Notifier</name>
    <message>
        <source>{model} can be used now.</source>
        <translation>{model} 现在可以使用了。</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>就绪</translation>
    </message>
    <message>
        <source>The model does not run</source>
        <translation>模型没有运行</translation>
    </message>
    <message>
        <source>The model is started again</source>
        <translation>正在重新启动模型</translation>
    </message>
    <message>
        <source>The answer is there</source>
        <translation>回答已完成</translation>
    </message>
    <message>
        <source>Something failed</source>
        <translation>出现问题</translation>
    </message>
</context>
<context>
    <name>Now</name>
    <message>
        <source>context of {n} tokens</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>ReadingTranscript</name>
    <message>
        <source>Answer</source>
        <translation>回答</translation>
    </message>
    <message>
        <source>You</source>
        <translation>您</translation>
    </message>
    <message>
        <source>{0} of {1}</source>
        <translation>第 {0} 条，共 {1} 条</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>Copy the link</source>
        <translation>复制链接</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>全选</translation>
    </message>
    <message>
        <source>Hide the thinking</source>
        <translation>隐藏思考</translation>
    </message>
    <message>
        <source>Show the thinking</source>
        <translation>显示思考</translation>
    </message>
    <message>
        <source>Copy this message</source>
        <translation>复制这条消息</translation>
    </message>
    <message>
        <source>Edit this message</source>
        <translation>编辑这条消息</translation>
    </message>
    <message>
        <source>Another answer</source>
        <translation>另一个回答</translation>
    </message>
    <message>
        <source>Continue this answer</source>
        <translation>继续这个回答</translation>
    </message>
    <message>
        <source>Older version</source>
        <translation>较早的版本</translation>
    </message>
    <message>
        <source>Newer version</source>
        <translation>较新的版本</translation>
    </message>
    <message>
        <source>New conversation from here</source>
        <translation>从这里新建对话</translation>
    </message>
</context>
<context>
    <name>Reason</name>
    <message>
        <source>The memory of this PC ran out. Close other programs, or choose a smaller model or a shorter context in the settings.</source>
        <translation>这台电脑的内存用完了。请关闭其他程序，或在设置中选择更小的模型或更短的上下文。</translation>
    </message>
    <message>
        <source>Other programs use the memory of the graphics card. Close them; the next question tries again.</source>
        <translation>其他程序正在占用显卡内存。请关闭它们；下一个问题会再次尝试加载。</translation>
    </message>
    <message>
        <source>The graphics card or its driver does not work. Restart the PC; if that does not help, install the newest NVIDIA driver.</source>
        <translation>显卡或其驱动程序无法工作。请重启电脑；如果没有帮助，请安装最新的 NVIDIA 驱动程序。</translation>
    </message>
    <message>
        <source>This processor lacks instructions that the engine needs. Set “ops” to “reference” in the settings, which is slow but works.</source>
        <translation>这个处理器缺少引擎所需的指令。请在设置中将“ops”设为“reference”，速度慢但可以使用。</translation>
    </message>
    <message>
        <source>The model file is damaged or of a kind that is not known, or its drive fails. Check the drive, and add the model again.</source>
        <translation>模型文件已损坏或类型未知，或者它所在的硬盘有故障。请检查硬盘，然后重新添加模型。</translation>
    </message>
    <message>
        <source>The model file is not there. Connect its drive, or add the model again.</source>
        <translation>找不到模型文件。请连接它所在的硬盘，或重新添加模型。</translation>
    </message>
    <message>
        <source>No model is installed yet. Add one to begin.</source>
        <translation>还没有安装模型。请先添加一个。</translation>
    </message>
    <message>
        <source>The run config {path} is not there. Choose another model, or add the model again.</source>
        <translation>运行配置 {path} 不存在。请选择其他模型，或重新添加该模型。</translation>
    </message>
    <message>
        <source>A setting of the model cannot be used. Correct it in the settings, or add the model again.</source>
        <translation>模型的某个设置无法使用。请在设置中更正，或重新添加模型。</translation>
    </message>
    <message>
        <source>A part of Stratum is missing or does not start. Run the setup again; it repairs what is missing.</source>
        <translation>Stratum 的某个部分缺失或无法启动。请再次运行安装程序，它会修复缺失的部分。</translation>
    </message>
    <message>
        <source>The engine has not answered for {seconds} seconds. Try again.</source>
        <translation>引擎已经 {seconds} 秒没有响应。请重试。</translation>
    </message>
    <message>
        <source>The engine did not get ready within {seconds} seconds. Try again; if it goes on, restart the PC.</source>
        <translation>引擎在 {seconds} 秒内没有准备就绪。请重试；如果仍然如此，请重启电脑。</translation>
    </message>
    <message>
        <source>The engine (process {pid}) does not end, although it was forced to; the system still holds it. Its memory comes back when it ends, or after a restart of the PC.</source>
        <translation>引擎（进程 {pid}）已被强制结束，但仍未退出，系统还占着它。它退出后或重启电脑后，内存才会释放。</translation>
    </message>
    <message>
        <source>A request is running. Wait for its end, or stop it; then try again.</source>
        <translation>有请求正在进行。请等它结束或将其停止，然后重试。</translation>
    </message>
    <message>
        <source>The engine was ended from outside of this window.</source>
        <translation>引擎被此窗口之外的操作结束了。</translation>
    </message>
    <message>
        <source>The engine ended unexpectedly. Try again; its log says more.</source>
        <translation>引擎意外退出。请重试；日志中有更多信息。</translation>
    </message>
    <message>
        <source>Port {port} is in use by another program ({owner}).</source>
        <translation>端口 {port} 已被其他程序（{owner}）占用。</translation>
    </message>
    <message>
        <source>Port {port} is in use by another program.</source>
        <translation>端口 {port} 已被其他程序占用。</translation>
    </message>
    <message>
        <source>End that program, or choose another port in the settings.</source>
        <translation>请结束该程序，或在设置中选择其他端口。</translation>
    </message>
    <message>
        <source>End that program, or use port {offered} instead.</source>
        <translation>请结束该程序，或改用端口 {offered}。</translation>
    </message>
</context>
<context>
    <name>Recent</name>
    <message>
        <source>{number} s</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>ReleaseWindow</name>
    <message>
        <source>Giving memory back</source>
        <translation>正在释放内存</translation>
    </message>
    <message>
        <source>End at once</source>
        <translation>立即结束</translation>
    </message>
    <message>
        <source>Stratum is ending. The model gives its memory back… ({seconds} s)</source>
        <translation>Stratum 正在退出，模型正在释放内存…（{seconds} 秒）</translation>
    </message>
    <message>
        <source>All memory is free again.</source>
        <translation>内存已全部释放。</translation>
    </message>
</context>
<context>
    <name>RunConfig</name>
    <message>
        <source>Model file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft head file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Served name</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Further names</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Context length</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Implementation</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Threads</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hold threads to cores</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lock the model into memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>KV cache format</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Projections as Q8_0</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt chunk</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Requests at once</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pause for other prompts (ms)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory for conversations (MiB)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keep conversations on disk</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Disk space for conversations (MiB)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Address to listen on</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Port</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>API keys</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Further host names</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Trusted pages</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pages that may generate (CORS)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Refuse other model names</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest queue</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest wait (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Largest request (MiB)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keep-alive of streams (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load with the first request</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Unload when idle (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free graphics memory needed (MiB)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Program before loading</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its longest run (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation type="unfinished">温度</translation>
    </message>
    <message>
        <source>Top P</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Top K</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Min P</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation type="unfinished">存在惩罚</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation type="unfinished">频率惩罚</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation type="unfinished">重复惩罚</translation>
    </message>
    <message>
        <source>Thinking level</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thinking of Anthropic clients</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thinking budget (tokens)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fit output to the context</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stop at repetition (tokens)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>MCP servers</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rounds of tools</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest run of a tool (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest result (characters)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Wait for permission (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Wait for a server&apos;s start (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Other server</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its key</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its longest silence (s)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model file (GGUF); any shard of a split model. Default: the bundled model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>File with the draft head (MTP layer) for a model that brings none itself. Default: what the model file has.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name under which the model is served. Default: the file&apos;s name.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Further names in the model list, comma-separated as a flag.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Context length in tokens, prompt and answer together. Default: the smaller of what the model was trained for and 32768.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Implementation of the operations: `auto` takes the fastest that works here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Threads of the CPU kernels; 0 = one for each physical core, less on processors with many slow cores and in containers with a limit.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hold each of these threads to one core. For a machine that does nothing else.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lock the model into memory, so that other programs cannot push parts of it out. Needs the permission to do so; without it a warning says why and the engine runs on.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Number format of the KV cache.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hold stream projections that the file keeps in 16 or 32 bits as Q8_0: faster, with a small change of the output; takes memory of its own and some seconds.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt tokens computed in one pass; also bounds workspaces.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Requests that decode together; others wait.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How long a running answer waits for its next token while another request&apos;s prompt is read, in milliseconds. More reads prompts faster, less keeps answers fluent.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory in MiB that keeps conversations warm, so that a further turn reads only what is new; 0 = none. Default: the smaller of 8192 and 40 % of what is left free.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write warm conversations to the data folder when the model is unloaded, and read them when it is loaded again. The file holds what was said.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Most disk space in MiB for them, all models together.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Address to listen on.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Port to listen on; 0 = any free one.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keys that clients must send, 16 characters or more each. Needed to listen beyond this machine.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Further host names that requests may carry.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Origins of web pages that may use and control the server.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Origins of web pages that may generate text (CORS).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Refuse requests that name another model than the served one.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Requests that may wait; further ones get 429.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest wait in the queue in seconds; then 503.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Largest request body in MiB.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Silence in seconds after which a stream gets a keep-alive.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load the model with the first request instead of at start.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Seconds without generation after which the model is unloaded; the next request loads it again. 0 = never.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Refuse to load while less graphics memory is free, in MiB; needs the package `nvidia-ml-py`. 0 = not checked.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Program with its arguments, run before each load (to free a graphics card, say); loading goes on when it ends with exit status 0.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest time in seconds that this program may take.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thinking level of requests that name none.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Whether requests to /v1/messages that name no thinking level think: `when_asked` does not (Anthropic&apos;s own rule), `always` takes the level above.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Most tokens that one answer may think for; 0 = no limit. A request may ask for less.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lower a request&apos;s output cap to the room that the context leaves (said in a header) instead of refusing it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>End an answer when one token repeats this often in a row; 0 = never.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>MCP servers whose tools the chat window, and requests that ask for it, may use (docs/mcp.md).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Times that one answer may stop to call tools.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest run of one tool.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Length at which a result is cut; the model is told.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How long a question waits for its answer; then it is no.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How long a server may take to start.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Base URL of an OpenAI-compatible server, such as http://host:8000/v1, that answers instead of a model on this machine (docs/scale.md).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Key that the upstream asks for; as STRATUM_UPSTREAM_KEY in the environment no other user of the machine sees it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Silence of the upstream in seconds after which a request ends with an error.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How freely words are chosen; 0 takes the likeliest always.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chooses among the likeliest tokens that together have this probability.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chooses among so many of the likeliest tokens; 0 = all.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Leaves out tokens less likely than this share of the likeliest.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Makes tokens that were used less likely, however often they were.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Makes tokens less likely the more often they were used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Divides the likelihood of tokens that were used; 1 = off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Computing</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Conversations in memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Server</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading</source>
        <translation type="unfinished">正在加载</translation>
    </message>
    <message>
        <source>Answers</source>
        <translation type="unfinished">回答</translation>
    </message>
    <message>
        <source>Tools and other servers</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>SettingsPanel</name>
    <message>
        <source>The model may use tools</source>
        <translation>模型可以使用工具</translation>
    </message>
    <message>
        <source>This conversation</source>
        <translation>此对话</translation>
    </message>
    <message>
        <source>Close (Ctrl+.)</source>
        <translation>关闭 (Ctrl+.)</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>系统提示</translation>
    </message>
    <message>
        <source>What the model should always keep in mind, such as a role or a style</source>
        <translation>模型应始终记住的内容，例如角色或风格</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>采样</translation>
    </message>
    <message>
        <source>Changes hold from the next answer on.</source>
        <translation>更改从下一个回答起生效。</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>预设</translation>
    </message>
    <message>
        <source>Keep these settings as a preset</source>
        <translation>把这些设置存为预设</translation>
    </message>
    <message>
        <source>Remove this preset</source>
        <translation>移除此预设</translation>
    </message>
    <message>
        <source>Use this preset for new conversations</source>
        <translation>新对话使用此预设</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>思考</translation>
    </message>
    <message>
        <source>a quarter of the context</source>
        <translation>上下文的四分之一</translation>
    </message>
    <message>
        <source>Most tokens that the model thinks; 0 = no limit</source>
        <translation>模型思考的最多词元数；0 = 不限</translation>
    </message>
    <message>
        <source>At most</source>
        <translation>最多</translation>
    </message>
    <message>
        <source>as long as it takes</source>
        <translation>不限长度</translation>
    </message>
    <message>
        <source>Longest answer</source>
        <translation>最长回答</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Top-p</source>
        <translation>Top-p</translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation>Min-p</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>存在惩罚</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>频率惩罚</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>重复惩罚</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>random</source>
        <translation>随机</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>随机种子</translation>
    </message>
    <message>
        <source>Standard ({0})</source>
        <translation>标准（{0}）</translation>
    </message>
    <message>
        <source>Standard</source>
        <translation>标准</translation>
    </message>
    <message>
        <source>Changed since.</source>
        <translation>之后有改动。</translation>
    </message>
    <message>
        <source>Name of the preset:</source>
        <translation>预设名称：</translation>
    </message>
</context>
<context>
    <name>Shell</name>
    <message>
        <source>The model stays ready. Click this sign to have the window back; its menu has “Quit Stratum”.</source>
        <translation>模型保持就绪。点击此图标可重新打开窗口；图标菜单中有“退出 Stratum”。</translation>
    </message>
    <message>
        <source>Stratum goes on here</source>
        <translation>Stratum 在这里继续运行</translation>
    </message>
    <message>
        <source>The model is answering.</source>
        <translation>模型正在回答。</translation>
    </message>
    <message>
        <source>Stop and quit</source>
        <translation>停止并退出</translation>
    </message>
    <message>
        <source>It can go on beside the clock while the window is closed.</source>
        <translation>窗口关闭后，它可以在系统托盘中继续运行。</translation>
    </message>
    <message>
        <source>Go on beside the clock</source>
        <translation>在托盘中继续</translation>
    </message>
    <message>
        <source>Closing the window ends Stratum and its answer.</source>
        <translation>关闭窗口会退出 Stratum 并中断回答。</translation>
    </message>
    <message>
        <source>Keep the window</source>
        <translation>保留窗口</translation>
    </message>
    <message>
        <source>The installer cannot be started. Run setup again.</source>
        <translation>无法启动安装程序。请重新运行安装。</translation>
    </message>
</context>
<context>
    <name>SideBar</name>
    <message>
        <source>Views</source>
        <translation>页面</translation>
    </message>
    <message>
        <source>Chat</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Monitor</source>
        <translation>监视器</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
</context>
<context>
    <name>Slow</name>
    <message>
        <source>The plain reference operations compute ({ops}), not the fast kernels. Set “Implementation” to auto; “Diagnostics” says what keeps the kernels from working.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model process was started again {count} times after a crash. The log says why.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{now} tokens/s now; {tuned} were measured on this PC when the settings were tuned. A long conversation explains some of it, other programs the rest.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{card} is {celsius} °C hot and slows itself down. Clean its fans, or give it more air.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{card} runs at its power limit ({watts} W). That is usual under full load.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Other programs hold {size} of the memory of {card}. Close games and other programs that use the card.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A screen hangs on {card} and takes some of its memory. Where the processor has graphics of its own, connect the screen there.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{card} is connected by PCIe {now}; {best} would be possible. Check the slot that it sits in.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The system fetches {rate} from the page file: memory is short. Close other programs, or choose a smaller model or a shorter context.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Only {free} of {total} of memory are free, so parts of the model may be pushed out. Close other programs.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{rate} are read from the drive while the model answers: not all of it stays in memory. More memory, or a smaller model, helps.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model lies on a disk that turns, where single rows are read slowly. Move it to an SSD (Settings, Models).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{program} takes {percent} % of the processor. Close it, or wait until it is done.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The PC runs on its battery and saves power. Plug it in.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The processor runs at {ghz} of {best_ghz} GHz while the model answers. Choose the power plan for best performance, and check its cooling.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine runs with a lowered priority, so that other programs go first. Start it from this window.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Only {percent} % of {offered} drafted tokens were right, so drafting costs more than it brings. Some languages and random text cannot be drafted well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{percent} % of all prompt tokens were read anew instead of taken from memory. More memory for conversations helps programs that send long prompts.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{percent} % of the time went into reading prompts. Shorter conversations, or fewer attached files, answer sooner.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Requests wait {seconds} s on average for their turn. Another program asks at the same time.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory reads {gb_per_s} GB/s here, and a token of this model reads {size}: that allows at most about {most_per_s} tokens/s without drafts.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{gb_per_s} GB/s is slow for today&apos;s memory. Two equal modules and the profile for their full speed (XMP or EXPO in the BIOS) can double it.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>SlowPanel</name>
    <message>
        <source>Why is it slow?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Look closer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measures memory and looks at other programs; takes some seconds.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measured on this PC, the gravest first:</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing unusual was measured.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing unusual so far. A closer look measures more.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>State</name>
    <message>
        <source>Giving memory back</source>
        <translation>正在释放内存</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>就绪</translation>
    </message>
    <message>
        <source>Memory is free</source>
        <translation>内存已释放</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>正在加载</translation>
    </message>
    <message>
        <source>Loading {percent} %</source>
        <translation>正在加载 {percent} %</translation>
    </message>
    <message>
        <source>Starting again</source>
        <translation>正在重新启动</translation>
    </message>
    <message>
        <source>Starting</source>
        <translation>正在启动</translation>
    </message>
    <message>
        <source>Does not run</source>
        <translation>未运行</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>已停止</translation>
    </message>
    <message>
        <source>The next question loads the model again.</source>
        <translation>下一个问题会重新加载模型。</translation>
    </message>
    <message>
        <source>Requests that wait: {count}</source>
        <translation>等待中的请求：{count}</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>正在阅读</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>正在思考</translation>
    </message>
    <message>
        <source>Calling a tool</source>
        <translation>正在调用工具</translation>
    </message>
    <message>
        <source>Answering</source>
        <translation>正在回答</translation>
    </message>
</context>
<context>
    <name>ThinkingHead</name>
    <message>
        <source>Hides the thinking</source>
        <translation>隐藏思考</translation>
    </message>
    <message>
        <source>Shows the thinking</source>
        <translation>显示思考</translation>
    </message>
    <message>
        <source>Answer now</source>
        <translation>立即回答</translation>
    </message>
    <message>
        <source>End the thinking; the answer follows (Ctrl+Shift+Return)</source>
        <translation>结束思考，随后回答 (Ctrl+Shift+Return)</translation>
    </message>
    <message>
        <source>Thinking: {0}</source>
        <translation>正在思考：{0}</translation>
    </message>
    <message>
        <source>Thought for {0}</source>
        <translation>思考了 {0}</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>思考</translation>
    </message>
</context>
<context>
    <name>ToolCard</name>
    <message>
        <source>Arguments</source>
        <translation>参数</translation>
    </message>
    <message>
        <source>Result</source>
        <translation>结果</translation>
    </message>
    <message>
        <source>Hides arguments and result</source>
        <translation>隐藏参数和结果</translation>
    </message>
    <message>
        <source>Shows arguments and result</source>
        <translation>显示参数和结果</translation>
    </message>
    <message>
        <source>The call is being written ({0})</source>
        <translation>正在编写调用（{0}）</translation>
    </message>
    <message>
        <source>Waits for your consent</source>
        <translation>等待您的同意</translation>
    </message>
    <message>
        <source>Runs</source>
        <translation>运行中</translation>
    </message>
    <message>
        <source>Done</source>
        <translation>完成</translation>
    </message>
    <message>
        <source>Failed</source>
        <translation>失败</translation>
    </message>
    <message>
        <source>Refused</source>
        <translation>已拒绝</translation>
    </message>
    <message>
        <source>The answer ended before</source>
        <translation>回答已提前结束</translation>
    </message>
    <message>
        <source>(empty)</source>
        <translation>（空）</translation>
    </message>
    <message>
        <source>May {0} run with these arguments?</source>
        <translation>允许 {0} 用这些参数运行吗？</translation>
    </message>
    <message>
        <source>Refuse</source>
        <translation>拒绝</translation>
    </message>
    <message>
        <source>Always allow</source>
        <translation>始终允许</translation>
    </message>
    <message>
        <source>Allow</source>
        <translation>允许</translation>
    </message>
</context>
<context>
    <name>Transcript</name>
    <message>
        <source>Conversation</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Copied</source>
        <translation>已复制</translation>
    </message>
    <message>
        <source>Copy this code</source>
        <translation>复制这段代码</translation>
    </message>
    <message>
        <source>To the end</source>
        <translation>到末尾</translation>
    </message>
    <message>
        <source>Go to the end and follow the answer (Ctrl+End)</source>
        <translation>转到末尾并跟随回答 (Ctrl+End)</translation>
    </message>
</context>
<context>
    <name>TrayMenu</name>
    <message>
        <source>Open chat</source>
        <translation>打开对话</translation>
    </message>
    <message>
        <source>Monitor</source>
        <translation>监视器</translation>
    </message>
    <message>
        <source>Start model</source>
        <translation>启动模型</translation>
    </message>
    <message>
        <source>Stop model</source>
        <translation>停止模型</translation>
    </message>
    <message>
        <source>Choose model</source>
        <translation>选择模型</translation>
    </message>
    <message>
        <source>Free memory now</source>
        <translation>立即释放内存</translation>
    </message>
    <message>
        <source>Copy API address</source>
        <translation>复制 API 地址</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
    <message>
        <source>Show log</source>
        <translation>查看日志</translation>
    </message>
    <message>
        <source>About Stratum</source>
        <translation>关于 Stratum</translation>
    </message>
    <message>
        <source>Quit Stratum</source>
        <translation>退出 Stratum</translation>
    </message>
    <message>
        <source>Gives graphics memory and RAM back; the next question loads the model again.</source>
        <translation>释放显存和内存；下一个问题会重新加载模型。</translation>
    </message>
    <message>
        <source>Add a model…</source>
        <translation>添加模型…</translation>
    </message>
</context>
</TS>
