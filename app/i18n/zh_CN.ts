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
        <source>Open settings</source>
        <translation>打开设置</translation>
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
        <translation>上下文：{0} 个 token</translation>
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
        <source>The message is deleted.</source>
        <translation>消息已删除。</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
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
        <source>Stratum ended in the middle of this answer. What had arrived is kept; “Continue” goes on with it.</source>
        <translation>回答进行中 Stratum 结束了。已收到的内容都保留着，点击“继续”可以接着回答。</translation>
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
        <translation>对话对模型来说太长了：{n_prompt_tokens} 个 token，而上下文只有 {n_ctx} 个。请新建对话、移除附件，或在设置中选择更大的上下文。</translation>
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
        <source>Delete the chosen message, else the last answer</source>
        <translation>删除选中的消息，未选中则删除最后的回答</translation>
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
        <translation>{0} 个 token</translation>
    </message>
    <message>
        <source>Reading {0} of {1} tokens</source>
        <translation>正在读取 {0} / {1} 个 token</translation>
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
        <translation>{0} token/秒</translation>
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
        <translation>提示：{0} 个 token，其中 {1} 个已记住</translation>
    </message>
    <message>
        <source>Reading: {0}, {1}</source>
        <translation>读取：{0}，{1}</translation>
    </message>
    <message>
        <source>Answer: {0} tokens, {1} of them thinking</source>
        <translation>回答：{0} 个 token，其中思考 {1} 个</translation>
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
    <name>Choices</name>
    <message>
        <source>auto (the fastest that works)</source>
        <translation>自动（可用的最快实现）</translation>
    </message>
    <message>
        <source>reference (plain and slow)</source>
        <translation>参考实现（简单而慢）</translation>
    </message>
    <message>
        <source>host (the processor&apos;s kernels)</source>
        <translation>host（处理器内核）</translation>
    </message>
    <message>
        <source>cuda (the graphics card and the processor)</source>
        <translation>cuda（显卡与处理器）</translation>
    </message>
    <message>
        <source>none</source>
        <translation>无</translation>
    </message>
    <message>
        <source>low</source>
        <translation>低</translation>
    </message>
    <message>
        <source>medium</source>
        <translation>中</translation>
    </message>
    <message>
        <source>high</source>
        <translation>高</translation>
    </message>
    <message>
        <source>when asked</source>
        <translation>按请求</translation>
    </message>
    <message>
        <source>always</source>
        <translation>始终</translation>
    </message>
</context>
<context>
    <name>ClientsPage</name>
    <message>
        <source>Other programs</source>
        <translation>其他程序</translation>
    </message>
    <message>
        <source>Coding agents, chat programs and scripts can use the model at this address.</source>
        <translation>编程助手、聊天程序和脚本可以通过此地址使用模型。</translation>
    </message>
    <message>
        <source>Write the key itself into the texts</source>
        <translation>在文本中写入密钥</translation>
    </message>
    <message>
        <source>Program</source>
        <translation>程序</translation>
    </message>
    <message>
        <source>Address</source>
        <translation>地址</translation>
    </message>
    <message>
        <source>The context is {n} tokens; agents work better with 65,536 or more (page “Model and engine”).</source>
        <translation>上下文为 {n} 个 token；编程助手在 65,536 或更多时效果更好（“模型与引擎”页面）。</translation>
    </message>
    <message>
        <source>Put the key in the place of {word}.</source>
        <translation>请用密钥替换 {word}。</translation>
    </message>
    <message>
        <source>In Open WebUI: Admin settings, Connections, OpenAI API.</source>
        <translation>在 Open WebUI 中：管理员设置，外部连接，OpenAI API。</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
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
    <name>Counted</name>
    <message>
        <source>{n}, with {tokens} tokens in {size}</source>
        <translation>{n} 个，共 {tokens} 个 token，占 {size}</translation>
    </message>
    <message>
        <source>{part} of {all} ({percent} %)</source>
        <translation>{part}/{all}（{percent} %）</translation>
    </message>
    <message>
        <source>{n} (on average {speed} tokens/s)</source>
        <translation>{n}（平均 {speed} token/秒）</translation>
    </message>
    <message>
        <source>{n}, and {errors} answered with an error</source>
        <translation>{n}，另有 {errors} 个以错误结束</translation>
    </message>
    <message>
        <source>for half of them within {seconds} s</source>
        <translation>半数在 {seconds} 秒内</translation>
    </message>
    <message>
        <source>Requests</source>
        <translation>请求</translation>
    </message>
    <message>
        <source>Tokens written</source>
        <translation>生成的 token</translation>
    </message>
    <message>
        <source>Prompt tokens from memory</source>
        <translation>来自内存的提示 token</translation>
    </message>
    <message>
        <source>Drafts accepted</source>
        <translation>接受的草稿</translation>
    </message>
    <message>
        <source>First token</source>
        <translation>首个 token</translation>
    </message>
    <message>
        <source>Conversations kept warm</source>
        <translation>保温的会话</translation>
    </message>
    <message>
        <source>Restarts after a crash</source>
        <translation>崩溃后的重启</translation>
    </message>
</context>
<context>
    <name>DiagnosticsPage</name>
    <message>
        <source>Diagnostics</source>
        <translation>诊断</translation>
    </message>
    <message>
        <source>For somebody who helps you: versions, what works on this PC, its hardware, your settings and the last lines of the logs. Keys, chats, and the names of you and your PC are not in it. Nothing is sent; you see everything before it is saved.</source>
        <translation>供帮助您的人使用：版本、这台电脑上能用的功能、硬件、您的设置和日志的最后几行。其中不含密钥、聊天以及您和电脑的名称。不会发送任何内容；保存前您可以看到全部内容。</translation>
    </message>
    <message>
        <source>Look at this PC</source>
        <translation>检查这台电脑</translation>
    </message>
    <message>
        <source>Save as a zip file…</source>
        <translation>保存为 zip 文件…</translation>
    </message>
    <message>
        <source>Files of the bundle</source>
        <translation>诊断包中的文件</translation>
    </message>
    <message>
        <source>Content of the chosen file</source>
        <translation>所选文件的内容</translation>
    </message>
    <message>
        <source>Looking at this PC…</source>
        <translation>正在检查这台电脑…</translation>
    </message>
    <message>
        <source>Saved as {path}</source>
        <translation>已保存为 {path}</translation>
    </message>
    <message>
        <source>Looking at this PC: {name}</source>
        <translation>正在检查这台电脑：{name}</translation>
    </message>
    <message>
        <source>This would be saved. Choose a file to read it.</source>
        <translation>将保存以下内容。选择文件即可阅读。</translation>
    </message>
    <message>
        <source>Save diagnostics</source>
        <translation>保存诊断信息</translation>
    </message>
</context>
<context>
    <name>Editors</name>
    <message>
        <source>auto: {value}</source>
        <translation>自动：{value}</translation>
    </message>
    <message>
        <source>auto</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>Choose a file</source>
        <translation>选择文件</translation>
    </message>
    <message>
        <source>Models (*.gguf)</source>
        <translation>模型 (*.gguf)</translation>
    </message>
    <message>
        <source>Show</source>
        <translation>显示</translation>
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
    <name>EntryDialog</name>
    <message>
        <source>MCP server</source>
        <translation>MCP 服务器</translation>
    </message>
    <message>
        <source>Name (several servers have their own)</source>
        <translation>名称（多个服务器各有自己的名称）</translation>
    </message>
    <message>
        <source>Name</source>
        <translation>名称</translation>
    </message>
    <message>
        <source>The server as JSON</source>
        <translation>服务器的 JSON</translation>
    </message>
    <message>
        <source>Paste what a program such as Claude Desktop has in its file, or write one entry: “command” with “args” and “env”, or “url” with “headers”.</source>
        <translation>粘贴 Claude Desktop 等程序文件中的内容，或写一个条目：“command”配“args”和“env”，或“url”配“headers”。</translation>
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
        <translation>{context} 个 token 的上下文超过了模型的 {trained}。请选择不超过该值的长度。</translation>
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
    <message>
        <source>Delete this message</source>
        <translation>删除这条消息</translation>
    </message>
</context>
<context>
    <name>GeneralPage</name>
    <message>
        <source>General</source>
        <translation>常规</translation>
    </message>
    <message>
        <source>Starting and closing</source>
        <translation>启动与关闭</translation>
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
        <source>Closing the window leaves Stratum beside the clock</source>
        <translation>关闭窗口后 Stratum 留在系统托盘</translation>
    </message>
    <message>
        <source>Show the sign beside the clock</source>
        <translation>显示系统托盘图标</translation>
    </message>
    <message>
        <source>Without the sign, closing the window ends Stratum.</source>
        <translation>没有托盘图标时，关闭窗口会退出 Stratum。</translation>
    </message>
    <message>
        <source>Look</source>
        <translation>外观</translation>
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
        <source>Language</source>
        <translation>语言</translation>
    </message>
    <message>
        <source>Colours</source>
        <translation>颜色</translation>
    </message>
    <message>
        <source>Notifications</source>
        <translation>通知</translation>
    </message>
    <message>
        <source>When the model is ready</source>
        <translation>模型就绪时</translation>
    </message>
    <message>
        <source>When a long answer is complete and the window is hidden</source>
        <translation>长回答完成且窗口隐藏时</translation>
    </message>
    <message>
        <source>When something fails</source>
        <translation>出错时</translation>
    </message>
    <message>
        <source>About Stratum</source>
        <translation>关于 Stratum</translation>
    </message>
    <message>
        <source>Show the log</source>
        <translation>显示日志</translation>
    </message>
    <message>
        <source>A portable copy changes nothing of the system.</source>
        <translation>便携版不会更改系统。</translation>
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
    <name>McpPage</name>
    <message>
        <source>Tools (MCP)</source>
        <translation>工具（MCP）</translation>
    </message>
    <message>
        <source>An MCP server is a program that offers tools: reading files, searching, writing tickets. Use only servers that you trust. Tools that change something ask first.</source>
        <translation>MCP 服务器是提供工具的程序：读取文件、搜索、创建工单等。请只使用您信任的服务器。会更改内容的工具会先征求同意。</translation>
    </message>
    <message>
        <source>No server is set up yet.</source>
        <translation>尚未设置服务器。</translation>
    </message>
    <message>
        <source>Add a server</source>
        <translation>添加服务器</translation>
    </message>
    <message>
        <source>Remove a server</source>
        <translation>移除服务器</translation>
    </message>
    <message>
        <source>Remove {name} from the list?</source>
        <translation>从列表中移除 {name}？</translation>
    </message>
    <message>
        <source>To keep it without using it, switch it off instead. The program itself stays.</source>
        <translation>如果只是不想使用，可以将其关闭。程序本身会保留。</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>移除</translation>
    </message>
    <message>
        <source>Its state is shown when the model runs.</source>
        <translation>模型运行时显示其状态。</translation>
    </message>
</context>
<context>
    <name>ModelPanel</name>
    <message>
        <source>Where the model lives</source>
        <translation>模型所在位置</translation>
    </message>
    <message>
        <source>Since the engine was started</source>
        <translation>引擎启动以来</translation>
    </message>
</context>
<context>
    <name>ModelRow</name>
    <message>
        <source>Use</source>
        <translation>使用</translation>
    </message>
    <message>
        <source>Move…</source>
        <translation>移动…</translation>
    </message>
    <message>
        <source>Remove…</source>
        <translation>移除…</translation>
    </message>
    <message>
        <source>Choose another model first.</source>
        <translation>请先选择其他模型。</translation>
    </message>
    <message>
        <source>Use {title}</source>
        <translation>使用 {title}</translation>
    </message>
    <message>
        <source>Move {title}</source>
        <translation>移动 {title}</translation>
    </message>
    <message>
        <source>Remove {title}</source>
        <translation>移除 {title}</translation>
    </message>
    <message>
        <source>active</source>
        <translation>使用中</translation>
    </message>
    <message>
        <source>came with Stratum</source>
        <translation>随 Stratum 附带</translation>
    </message>
    <message>
        <source>download not finished; “Add a model” goes on with it</source>
        <translation>下载未完成；“添加模型”会继续下载</translation>
    </message>
    <message>
        <source>files not found: is its drive connected?</source>
        <translation>找不到文件：硬盘是否已连接？</translation>
    </message>
    <message>
        <source>{size} of it shared or used where it lies</source>
        <translation>其中 {size} 为共享或在原处使用</translation>
    </message>
</context>
<context>
    <name>ModelsPage</name>
    <message>
        <source>Models</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Models and chats are in {folder}</source>
        <translation>模型和聊天保存在 {folder}</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Add a model</source>
        <translation>添加模型</translation>
    </message>
    <message>
        <source>Remove a model</source>
        <translation>移除模型</translation>
    </message>
    <message>
        <source>Delete {title} and free {size}?</source>
        <translation>删除 {title} 并释放 {size}？</translation>
    </message>
    <message>
        <source>Its files in {folder} are deleted. Chats stay. To have it again it must be downloaded again.</source>
        <translation>{folder} 中的文件将被删除。聊天会保留。再次使用需要重新下载。</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>{title} was deleted.</source>
        <translation>已删除 {title}。</translation>
    </message>
    <message>
        <source>Move {title} to</source>
        <translation>将 {title} 移动到</translation>
    </message>
    <message>
        <source>Copying {title} to {folder}</source>
        <translation>正在将 {title} 复制到 {folder}</translation>
    </message>
    <message>
        <source>The model stays where it is.</source>
        <translation>模型保留在原处。</translation>
    </message>
    <message>
        <source>The model is stopped for a moment</source>
        <translation>模型暂时停止</translation>
    </message>
    <message>
        <source>The model is in {folder} now.</source>
        <translation>模型现在位于 {folder}。</translation>
    </message>
</context>
<context>
    <name>MonitorView</name>
    <message>
        <source>Last requests</source>
        <translation>最近的请求</translation>
    </message>
</context>
<context>
    <name>NetworkPage</name>
    <message>
        <source>Network</source>
        <translation>网络</translation>
    </message>
    <message>
        <source>Other devices in my network may use the model</source>
        <translation>允许网络中的其他设备使用模型</translation>
    </message>
    <message>
        <source>Off, only programs on this PC reach it. On, every device needs the key below. The connection is not encrypted: use it in networks that you trust.</source>
        <translation>关闭时只有这台电脑上的程序可以访问。开启后每个设备都需要下面的密钥。连接未加密：请在可信的网络中使用。</translation>
    </message>
    <message>
        <source>Key</source>
        <translation>密钥</translation>
    </message>
    <message>
        <source>Show</source>
        <translation>显示</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>Make a key</source>
        <translation>创建密钥</translation>
    </message>
    <message>
        <source>Remove the key</source>
        <translation>移除密钥</translation>
    </message>
    <message>
        <source>This PC in the network</source>
        <translation>这台电脑的网络地址</translation>
    </message>
    <message>
        <source>No other device reaches it now.</source>
        <translation>现在没有其他设备可以访问。</translation>
    </message>
    <message>
        <source>No key: programs on this PC need none</source>
        <translation>没有密钥：这台电脑上的程序不需要</translation>
    </message>
    <message>
        <source>Make a new key</source>
        <translation>创建新密钥</translation>
    </message>
    <message>
        <source>Programs on this PC need the key too. {n} more keys are in the file.</source>
        <translation>这台电脑上的程序也需要密钥。文件中还有 {n} 个密钥。</translation>
    </message>
    <message>
        <source>With a key, programs on this PC need it too.</source>
        <translation>有密钥时，这台电脑上的程序也需要它。</translation>
    </message>
    <message>
        <source>A key was made. Each device and each program on this PC needs it from now on.</source>
        <translation>已创建密钥。今后每个设备和这台电脑上的每个程序都需要它。</translation>
    </message>
    <message>
        <source>The former key works until the model is started again.</source>
        <translation>在重新启动模型之前，旧密钥仍然有效。</translation>
    </message>
    <message>
        <source>Hide</source>
        <translation>隐藏</translation>
    </message>
    <message>
        <source>This PC is in no network now.</source>
        <translation>这台电脑现在不在任何网络中。</translation>
    </message>
    <message>
        <source>When a device finds nothing there, the firewall keeps it out. This lets it in (in a command window of the administrator):</source>
        <translation>如果设备无法访问，说明被防火墙阻止。以下命令可放行（在管理员命令窗口中运行）：</translation>
    </message>
    <message>
        <source>This code is the key: read it with the phone and put it into the page.</source>
        <translation>此二维码是密钥：用手机扫描后填入页面。</translation>
    </message>
    <message>
        <source>This code opens the chat page on a phone. It asks for the key once; “Show” turns this into a code of the key.</source>
        <translation>此二维码在手机上打开聊天页面。页面会询问一次密钥；点击“显示”后这里变为密钥的二维码。</translation>
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
        <translation>上下文 {n} 个 token</translation>
    </message>
    <message>
        <source>Reading {read} of {total} tokens ({cached} of them from memory)</source>
        <translation>正在读取 {total} 个 token 中的 {read} 个（其中 {cached} 个来自内存）</translation>
    </message>
    <message>
        <source>{n} tokens written in {seconds} s; {used} of {context} of the context used</source>
        <translation>{seconds} 秒内写了 {n} 个 token；上下文已用 {used}/{context}</translation>
    </message>
    <message>
        <source>{n} tokens written in {seconds} s</source>
        <translation>{seconds} 秒内写了 {n} 个 token</translation>
    </message>
    <message>
        <source>reading {n} tokens/s</source>
        <translation>读取 {n} token/秒</translation>
    </message>
    <message>
        <source>writing {n} tokens/s</source>
        <translation>生成 {n} token/秒</translation>
    </message>
</context>
<context>
    <name>Places</name>
    <message>
        <source>Graphics memory</source>
        <translation>显存</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
    <message>
        <source>Memory (the file itself)</source>
        <translation>内存（文件映射）</translation>
    </message>
    <message>
        <source>Drive, read when needed</source>
        <translation>硬盘（按需读取）</translation>
    </message>
    <message>
        <source>experts</source>
        <translation>专家</translation>
    </message>
    <message>
        <source>n-gram table</source>
        <translation>n-gram 表</translation>
    </message>
    <message>
        <source>token embedding</source>
        <translation>词嵌入</translation>
    </message>
    <message>
        <source>draft layer</source>
        <translation>草稿层</translation>
    </message>
    <message>
        <source>stream projections</source>
        <translation>流投影</translation>
    </message>
    <message>
        <source>stream projections as Q8_0</source>
        <translation>流投影（Q8_0）</translation>
    </message>
    <message>
        <source>other weights</source>
        <translation>其他权重</translation>
    </message>
    <message>
        <source>KV cache</source>
        <translation>KV 缓存</translation>
    </message>
    <message>
        <source>recurrent states</source>
        <translation>循环状态</translation>
    </message>
    <message>
        <source>workspace</source>
        <translation>工作区</translation>
    </message>
    <message>
        <source>vocabulary</source>
        <translation>词表</translation>
    </message>
    <message>
        <source>program</source>
        <translation>程序</translation>
    </message>
    <message>
        <source>conversations</source>
        <translation>会话</translation>
    </message>
</context>
<context>
    <name>Plots</name>
    <message>
        <source>Tokens per second</source>
        <translation>每秒 token 数</translation>
    </message>
    <message>
        <source>Processor</source>
        <translation>处理器</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
    <message>
        <source>Drives</source>
        <translation>硬盘</translation>
    </message>
    <message>
        <source>All programs; the second line is the engine&apos;s share.</source>
        <translation>所有程序；第二条线是引擎的占用。</translation>
    </message>
    <message>
        <source>All programs; the second line is the engine&apos;s part.</source>
        <translation>所有程序；第二条线是引擎的部分。</translation>
    </message>
    <message>
        <source>Read; the second line is what is written.</source>
        <translation>读取；第二条线是写入。</translation>
    </message>
    <message>
        <source>Graphics card</source>
        <translation>显卡</translation>
    </message>
    <message>
        <source>Graphics memory</source>
        <translation>显存</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Power</source>
        <translation>功耗</translation>
    </message>
    <message>
        <source>PCIe</source>
        <translation>PCIe</translation>
    </message>
</context>
<context>
    <name>Problems</name>
    <message>
        <source>Others could reach the engine then, so it needs a key first. Make one on the page “Network”.</source>
        <translation>这样其他设备就能访问引擎，因此需要先有密钥。请在“网络”页面创建。</translation>
    </message>
    <message>
        <source>{key} cannot have this value.</source>
        <translation>{key} 不能使用此值。</translation>
    </message>
    <message>
        <source>It must be {allowed}.</source>
        <translation>必须是{allowed}。</translation>
    </message>
    <message>
        <source>{path} cannot be written. Free some space, or choose a folder that belongs to you.</source>
        <translation>无法写入 {path}。请释放空间，或选择属于您的文件夹。</translation>
    </message>
    <message>
        <source>{path} cannot be read. Check the path.</source>
        <translation>无法读取 {path}。请检查路径。</translation>
    </message>
    <message>
        <source>{path} was written by a newer version of Stratum. Update Stratum.</source>
        <translation>{path} 由更新版本的 Stratum 写入。请更新 Stratum。</translation>
    </message>
    <message>
        <source>{folder} has {free} free; the model needs {needed}. Choose another folder, or free some space.</source>
        <translation>{folder} 剩余 {free}，模型需要 {needed}。请选择其他文件夹或释放空间。</translation>
    </message>
    <message>
        <source>The copy of {file} is not what was copied, so nothing was changed. Check the drive, and try again.</source>
        <translation>{file} 的副本与原文件不一致，因此未作任何更改。请检查硬盘后重试。</translation>
    </message>
    <message>
        <source>This is no list of MCP servers. Paste the JSON that a program such as Claude Desktop has, with “mcpServers” in it.</source>
        <translation>这不是 MCP 服务器列表。请粘贴 Claude Desktop 等程序中含有“mcpServers”的 JSON。</translation>
    </message>
    <message>
        <source>{path} is there already. Choose another folder.</source>
        <translation>{path} 已存在。请选择其他文件夹。</translation>
    </message>
    <message>
        <source>{path} cannot be deleted. Stop the model, and try again.</source>
        <translation>无法删除 {path}。请停止模型后重试。</translation>
    </message>
    <message>
        <source>The engine does not run. Start it, and try again.</source>
        <translation>引擎未运行。请启动后重试。</translation>
    </message>
    <message>
        <source>The engine&apos;s command line does not answer. Run setup again.</source>
        <translation>引擎的命令行没有响应。请重新运行安装程序。</translation>
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
    <message>
        <source>Delete this message</source>
        <translation>删除这条消息</translation>
    </message>
</context>
<context>
    <name>Reason</name>
    <message>
        <source>The memory of this PC ran out. Close other programs, or choose a smaller model or a shorter context in the settings.</source>
        <translation>这台电脑的内存用完了。请关闭其他程序，或在设置中选择更小的模型或更短的上下文。</translation>
    </message>
    <message>
        <source>The system or another program ended the engine, most often because the memory of this PC ran out. If it happens again, close other programs, or choose a smaller model or a shorter context in the settings.</source>
        <translation>引擎被系统或其他程序结束，最常见的原因是内存不足。如果再次发生，请关闭其他程序，或在设置中选择更小的模型或更短的上下文。</translation>
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
        <source>Ended</source>
        <translation>结束时间</translation>
    </message>
    <message>
        <source>Interface</source>
        <translation>接口</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>提示</translation>
    </message>
    <message>
        <source>From memory</source>
        <translation>来自内存</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>回答</translation>
    </message>
    <message>
        <source>First token</source>
        <translation>首个 token</translation>
    </message>
    <message>
        <source>In all</source>
        <translation>总计</translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation>token/秒</translation>
    </message>
    <message>
        <source>End</source>
        <translation>结果</translation>
    </message>
    <message>
        <source>Chat</source>
        <translation>聊天</translation>
    </message>
    <message>
        <source>Completion</source>
        <translation>补全</translation>
    </message>
    <message>
        <source>Responses</source>
        <translation>Responses</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Messages</translation>
    </message>
    <message>
        <source>complete</source>
        <translation>完成</translation>
    </message>
    <message>
        <source>length reached</source>
        <translation>达到长度上限</translation>
    </message>
    <message>
        <source>tool call</source>
        <translation>工具调用</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>已停止</translation>
    </message>
    <message>
        <source>error</source>
        <translation>错误</translation>
    </message>
    <message>
        <source>{number} s</source>
        <translation>{number} 秒</translation>
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
    <name>RowWidget</name>
    <message>
        <source>Back to the default</source>
        <translation>恢复默认值</translation>
    </message>
    <message>
        <source>{name}: back to the default</source>
        <translation>{name}：恢复默认值</translation>
    </message>
    <message>
        <source>Allowed: {words}.</source>
        <translation>允许：{words}。</translation>
    </message>
    <message>
        <source>Here “auto” is {value}.</source>
        <translation>这里“自动”为 {value}。</translation>
    </message>
    <message>
        <source>Needs a restart.</source>
        <translation>需要重启。</translation>
    </message>
    <message>
        <source>Saved; waits for a restart.</source>
        <translation>已保存，等待重启。</translation>
    </message>
</context>
<context>
    <name>RunConfig</name>
    <message>
        <source>Model file</source>
        <translation>模型文件</translation>
    </message>
    <message>
        <source>Draft head file</source>
        <translation>草稿头文件</translation>
    </message>
    <message>
        <source>Served name</source>
        <translation>对外名称</translation>
    </message>
    <message>
        <source>Further names</source>
        <translation>其他名称</translation>
    </message>
    <message>
        <source>Context length</source>
        <translation>上下文长度</translation>
    </message>
    <message>
        <source>Implementation</source>
        <translation>运算实现</translation>
    </message>
    <message>
        <source>Reproducible answers</source>
        <translation>可复现的回答</translation>
    </message>
    <message>
        <source>Threads</source>
        <translation>线程数</translation>
    </message>
    <message>
        <source>Hold threads to cores</source>
        <translation>线程绑定核心</translation>
    </message>
    <message>
        <source>Lock the model into memory</source>
        <translation>将模型锁定在内存中</translation>
    </message>
    <message>
        <source>N-gram table</source>
        <translation>n-gram 表</translation>
    </message>
    <message>
        <source>Rows of the n-gram table kept</source>
        <translation>保留的 n-gram 表行数</translation>
    </message>
    <message>
        <source>Where experts are kept</source>
        <translation>专家的存放位置</translation>
    </message>
    <message>
        <source>Memory for experts (MiB)</source>
        <translation>专家占用的内存（MiB）</translation>
    </message>
    <message>
        <source>Ask the disk for experts early</source>
        <translation>提前从磁盘读取专家</translation>
    </message>
    <message>
        <source>File with counts of experts</source>
        <translation>专家使用计数文件</translation>
    </message>
    <message>
        <source>Count which experts are used</source>
        <translation>统计用到的专家</translation>
    </message>
    <message>
        <source>Graphics cards</source>
        <translation>显卡</translation>
    </message>
    <message>
        <source>Share of experts copied to the card</source>
        <translation>复制到显卡的专家比例</translation>
    </message>
    <message>
        <source>Graphics memory for experts (MiB)</source>
        <translation>专家占用的显存（MiB）</translation>
    </message>
    <message>
        <source>Graphics memory left to others (MiB)</source>
        <translation>留给其他程序的显存（MiB）</translation>
    </message>
    <message>
        <source>KV cache format</source>
        <translation>KV 缓存格式</translation>
    </message>
    <message>
        <source>Tokens on the graphics card</source>
        <translation>显卡上保留的 token 数</translation>
    </message>
    <message>
        <source>Projections as Q8_0</source>
        <translation>投影使用 Q8_0</translation>
    </message>
    <message>
        <source>Prompt chunk</source>
        <translation>提示分块</translation>
    </message>
    <message>
        <source>Requests at once</source>
        <translation>并行请求数</translation>
    </message>
    <message>
        <source>Drafts from the conversation</source>
        <translation>从会话中起草</translation>
    </message>
    <message>
        <source>Drafts of the draft head</source>
        <translation>草稿头的草稿长度</translation>
    </message>
    <message>
        <source>Least probability of a draft</source>
        <translation>草稿的最低概率</translation>
    </message>
    <message>
        <source>Draft vocabulary</source>
        <translation>草稿词表</translation>
    </message>
    <message>
        <source>Drafts from frequent words</source>
        <translation>按词频起草</translation>
    </message>
    <message>
        <source>Corpus for these drafts</source>
        <translation>此类草稿的语料</translation>
    </message>
    <message>
        <source>Learn from requests</source>
        <translation>从请求中学习</translation>
    </message>
    <message>
        <source>Pause for other prompts (ms)</source>
        <translation>读取其他提示时的停顿（毫秒）</translation>
    </message>
    <message>
        <source>Memory for conversations (MiB)</source>
        <translation>会话内存（MiB）</translation>
    </message>
    <message>
        <source>Keep conversations on disk</source>
        <translation>将会话保存到磁盘</translation>
    </message>
    <message>
        <source>Disk space for conversations (MiB)</source>
        <translation>会话磁盘空间（MiB）</translation>
    </message>
    <message>
        <source>Address to listen on</source>
        <translation>监听地址</translation>
    </message>
    <message>
        <source>Port</source>
        <translation>端口</translation>
    </message>
    <message>
        <source>API keys</source>
        <translation>API 密钥</translation>
    </message>
    <message>
        <source>Further host names</source>
        <translation>其他主机名</translation>
    </message>
    <message>
        <source>Trusted pages</source>
        <translation>受信任的网页</translation>
    </message>
    <message>
        <source>Pages that may generate (CORS)</source>
        <translation>可生成文本的网页（CORS）</translation>
    </message>
    <message>
        <source>Refuse other model names</source>
        <translation>拒绝其他模型名称</translation>
    </message>
    <message>
        <source>Longest queue</source>
        <translation>最长队列</translation>
    </message>
    <message>
        <source>Longest wait (s)</source>
        <translation>最长等待（秒）</translation>
    </message>
    <message>
        <source>Largest request (MiB)</source>
        <translation>最大请求（MiB）</translation>
    </message>
    <message>
        <source>Keep-alive of streams (s)</source>
        <translation>流保活间隔（秒）</translation>
    </message>
    <message>
        <source>Load with the first request</source>
        <translation>首次请求时才加载</translation>
    </message>
    <message>
        <source>Unload when idle (s)</source>
        <translation>空闲后卸载（秒）</translation>
    </message>
    <message>
        <source>Free graphics memory needed (MiB)</source>
        <translation>所需空闲显存（MiB）</translation>
    </message>
    <message>
        <source>Program before loading</source>
        <translation>加载前运行的程序</translation>
    </message>
    <message>
        <source>Its longest run (s)</source>
        <translation>该程序最长运行时间（秒）</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Top P</source>
        <translation>Top P</translation>
    </message>
    <message>
        <source>Top K</source>
        <translation>Top K</translation>
    </message>
    <message>
        <source>Min P</source>
        <translation>Min P</translation>
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
        <source>Thinking level</source>
        <translation>思考级别</translation>
    </message>
    <message>
        <source>Thinking of Anthropic clients</source>
        <translation>Anthropic 客户端的思考</translation>
    </message>
    <message>
        <source>Thinking budget (tokens)</source>
        <translation>思考预算（token）</translation>
    </message>
    <message>
        <source>Fit output to the context</source>
        <translation>输出上限适应上下文</translation>
    </message>
    <message>
        <source>Stop at repetition (tokens)</source>
        <translation>重复时停止（token）</translation>
    </message>
    <message>
        <source>MCP servers</source>
        <translation>MCP 服务器</translation>
    </message>
    <message>
        <source>Rounds of tools</source>
        <translation>工具轮数</translation>
    </message>
    <message>
        <source>Longest run of a tool (s)</source>
        <translation>工具最长运行时间（秒）</translation>
    </message>
    <message>
        <source>Longest result (characters)</source>
        <translation>结果最大长度（字符）</translation>
    </message>
    <message>
        <source>Wait for permission (s)</source>
        <translation>等待许可（秒）</translation>
    </message>
    <message>
        <source>Wait for a server&apos;s start (s)</source>
        <translation>等待服务器启动（秒）</translation>
    </message>
    <message>
        <source>Other server</source>
        <translation>其他服务器</translation>
    </message>
    <message>
        <source>Its key</source>
        <translation>其密钥</translation>
    </message>
    <message>
        <source>Its longest silence (s)</source>
        <translation>其最长静默（秒）</translation>
    </message>
    <message>
        <source>An answer depends on the request, its seed, the model and the version alone, not on what is kept warm, drafted or answered beside it. On the processor that holds anyway; a graphics card computes what its cache has just then, so it is not used, and answers may take longer.</source>
        <translation>回答只取决于请求、其随机种子、模型和版本，而与保持热态的内容、草稿或同时处理的其他请求无关。在处理器上本来就如此；显卡的计算取决于其缓存当时的内容，因此不会被使用，回答可能需要更长时间。</translation>
    </message>
    <message>
        <source>Where experts are: `mapped` leaves them to the system&apos;s file cache, `resident` keeps all of them in memory, `budget` those that are used most. `auto` is `mapped`.</source>
        <translation>专家的位置：`mapped` 交给系统的文件缓存，`resident` 全部留在内存中，`budget` 只留最常用的。`auto` 即 `mapped`。</translation>
    </message>
    <message>
        <source>Memory in MiB for the experts that `budget` keeps. Default: 80 % of what everything else leaves free.</source>
        <translation>`budget` 所保留专家的内存，单位 MiB。默认：其余部分占用后所剩内存的 80 %。</translation>
    </message>
    <message>
        <source>Ask the disk for experts as soon as they are known, and for those that the next layer will probably want; `auto` does so when memory does not hold all of them.</source>
        <translation>一知道需要哪些专家就向磁盘读取，并提前读取下一层可能需要的专家；`auto` 在内存放不下全部专家时这样做。</translation>
    </message>
    <message>
        <source>File with counts of which experts are used. Default: this model&apos;s in the data folder.</source>
        <translation>记录专家使用次数的文件。默认：数据文件夹中该模型的文件。</translation>
    </message>
    <message>
        <source>Count which experts are used, and write the counts when the model is unloaded. The file holds no text.</source>
        <translation>统计用到哪些专家，并在卸载模型时写入计数。该文件不含任何文字内容。</translation>
    </message>
    <message>
        <source>Share of the experts that the graphics card lacks which is copied to it and computed there, instead of on the processor.</source>
        <translation>显卡中没有的专家里，复制到显卡上计算（而不由处理器计算）的比例。</translation>
    </message>
    <message>
        <source>Graphics memory in MiB for experts, of all cards together. Default: all that is left beside the reserve.</source>
        <translation>所有显卡合计用于专家的显存，以 MiB 为单位。默认：除预留部分外剩余的全部。</translation>
    </message>
    <message>
        <source>Graphics memory in MiB that is left to other programs, on each card, also to those that are started later. Default: 700, or 1500 where a screen may hang on the card.</source>
        <translation>每块显卡留给其他程序的显存，也包括之后启动的程序，以 MiB 为单位。默认：700；如果显卡可能接有显示器，则为 1500。</translation>
    </message>
    <message>
        <source>Implementation of the operations: `auto` takes a graphics card that passed its check on this PC, else the fastest of the processor.</source>
        <translation>运算的实现方式：`auto` 使用在这台电脑上通过检查的显卡，否则使用处理器上最快的实现。</translation>
    </message>
    <message>
        <source>Prompt tokens computed in one pass; also bounds workspaces. Default: 256 on the processor; on a graphics card 256 to 8192, as its memory and the bus make prompts and answers fastest together.</source>
        <translation>一次计算的提示 token 数；也限制工作区大小。默认：处理器上为 256；显卡上为 256 到 8192，取其显存和总线能让读取提示和回答合起来最快的值。</translation>
    </message>
    <message>
        <source>NVIDIA cards that compute, by the numbers of `nvidia-smi` or the UUIDs of `nvidia-smi -L`; several share the layers of the model. `auto` takes those that make answers faster, and leaves out what cannot be used; cards that are named are all used.</source>
        <translation>参与计算的 NVIDIA 显卡，用 `nvidia-smi` 的编号或 `nvidia-smi -L` 的 UUID 表示；多块显卡分担模型的各层。`auto` 选用能让回答更快的显卡，略过不能用的；点名的显卡全部使用。</translation>
    </message>
    <message>
        <source>Count what all requests hold for these guesses, and keep the counts in the data folder. The file holds what was said.</source>
        <translation>统计所有请求中的内容用于这些猜测，并将计数保存在数据文件夹中。该文件包含说过的内容。</translation>
    </message>
    <message>
        <source>A corpus for these guesses, made by `engine lookup build` for this model.</source>
        <translation>用于这些猜测的语料，由 `engine lookup build` 为此模型生成。</translation>
    </message>
    <message>
        <source>Guess by which tokens followed the same one to four tokens most often, where nothing better is known.</source>
        <translation>在没有更好依据时，根据同样的一到四个 token 之后最常出现的 token 来猜测。</translation>
    </message>
    <message>
        <source>Tokens that the draft head may guess: `all`, those of a script (`en`, `cjk`, `cyrillic`, each with ASCII), or a file of `python -m tools.draft_vocabulary`. Fewer make each guess cheaper, and leave texts in other scripts without any.</source>
        <translation>草稿头可猜的 token：`all`、某种文字的（`en`、`cjk`、`cyrillic`，均含 ASCII），或 `python -m tools.draft_vocabulary` 生成的文件。越少则每次猜测越便宜，但其他文字的文本将没有猜测。</translation>
    </message>
    <message>
        <source>The draft head stops guessing at a token that it gives a smaller probability.</source>
        <translation>草稿头给出的概率低于此值时停止猜测。</translation>
    </message>
    <message>
        <source>Most tokens in a row that the model&apos;s draft head (MTP) may guess; 0 = none.</source>
        <translation>模型草稿头（MTP）连续可猜的最多 token 数；0 = 无。</translation>
    </message>
    <message>
        <source>Guess the next tokens from what the conversation already holds. Guesses are verified: they make answers faster where text is repeated, and never change them.</source>
        <translation>从会话已有内容猜测接下来的 token。猜测会被验证：文本重复时回答更快，且从不改变结果。</translation>
    </message>
    <message>
        <source>Model file (GGUF); any shard of a split model. Default: the bundled model.</source>
        <translation>模型文件（GGUF）；分片模型可选任意分片。默认：附带的模型。</translation>
    </message>
    <message>
        <source>File with the draft head (MTP layer) for a model that brings none itself. Default: what the model file has.</source>
        <translation>含草稿头（MTP 层）的文件，用于自身不带草稿头的模型。默认：模型文件自带的。</translation>
    </message>
    <message>
        <source>Name under which the model is served. Default: the file&apos;s name.</source>
        <translation>模型对外提供的名称。默认：文件名。</translation>
    </message>
    <message>
        <source>Further names in the model list, comma-separated as a flag.</source>
        <translation>模型列表中的其他名称。</translation>
    </message>
    <message>
        <source>Context length in tokens, prompt and answer together. Default: the smaller of what the model was trained for and 32768.</source>
        <translation>上下文长度（token），提示与回答合计。默认：模型训练长度与 32768 中较小者。</translation>
    </message>
    <message>
        <source>Threads of the CPU kernels; 0 = one for each physical core, less on processors with many slow cores and in containers with a limit.</source>
        <translation>CPU 内核的线程数；0 = 每个物理核心一个，在有许多慢核心的处理器和受限容器中更少。</translation>
    </message>
    <message>
        <source>Hold each of these threads to one core. For a machine that does nothing else.</source>
        <translation>将每个线程固定在一个核心上。适用于不做其他事的机器。</translation>
    </message>
    <message>
        <source>Lock the model into memory, so that other programs cannot push parts of it out. Needs the permission to do so; without it a warning says why and the engine runs on.</source>
        <translation>将模型锁定在内存中，使其他程序无法将其部分挤出。需要相应权限；没有权限时会给出警告并继续运行。</translation>
    </message>
    <message>
        <source>How rows of the n-gram table come from the disk: `direct` reads them early and past the system&apos;s cache, `mapped` leaves it to the system&apos;s paging, `ram` holds the whole table. `auto` is `direct`, or `ram` for a small table or a slow drive if memory is free.</source>
        <translation>如何从磁盘读取 n-gram 表的行：`direct` 提前读取并绕过系统缓存，`mapped` 交给系统分页，`ram` 将整张表放入内存。`auto` 即 `direct`；表较小，或硬盘较慢且内存充足时为 `ram`。</translation>
    </message>
    <message>
        <source>Rows of the n-gram table that `direct` keeps in memory, about 95 bytes each.</source>
        <translation>`direct` 保留在内存中的 n-gram 表行数，每行约 95 字节。</translation>
    </message>
    <message>
        <source>Number format of the KV cache; `i8` takes about half of what `f16` does, and needs a graphics card that computes.</source>
        <translation>KV 缓存的数字格式；`i8` 约占 `f16` 的一半，需要用显卡计算。</translation>
    </message>
    <message>
        <source>Tokens whose keys and values stay in graphics memory; those of all others lie in RAM, where the card reads them over the bus. Default: those of one full context, as far as everything else leaves room for them; more only where all experts fit too.</source>
        <translation>键和值保留在显存中的 token 数；其余 token 的键和值放在内存中，由显卡通过总线读取。默认：一个完整上下文，但不超过其他部分留下的空间；只有全部专家也放得下时才会更多。</translation>
    </message>
    <message>
        <source>Hold stream projections that the file keeps in 16 or 32 bits as Q8_0: faster, with a small change of the output; takes memory of its own and some seconds.</source>
        <translation>将文件中以 16 或 32 位保存的流投影改为 Q8_0：更快，输出略有变化；需要额外内存和几秒钟。</translation>
    </message>
    <message>
        <source>Requests that decode together; others wait.</source>
        <translation>同时解码的请求数；其余等待。</translation>
    </message>
    <message>
        <source>How long a running answer waits for its next token while another request&apos;s prompt is read, in milliseconds. More reads prompts faster, less keeps answers fluent.</source>
        <translation>读取另一请求的提示时，正在生成的回答等待下一个 token 的时间（毫秒）。值大则读提示更快，值小则回答更流畅。</translation>
    </message>
    <message>
        <source>Memory in MiB that keeps conversations warm, so that a further turn reads only what is new; 0 = none. Default: the smaller of 8192 and 40 % of what is left free.</source>
        <translation>用于保温会话的内存（MiB），使后续轮次只需读取新内容；0 = 无。默认：8192 与剩余内存 40 % 中较小者。</translation>
    </message>
    <message>
        <source>Write warm conversations to the data folder when the model is unloaded, and read them when it is loaded again. The file holds what was said.</source>
        <translation>卸载模型时将保温会话写入数据文件夹，再次加载时读回。文件包含对话内容。</translation>
    </message>
    <message>
        <source>Most disk space in MiB for them, all models together.</source>
        <translation>为此使用的最大磁盘空间（MiB），所有模型合计。</translation>
    </message>
    <message>
        <source>Address to listen on.</source>
        <translation>监听的地址。</translation>
    </message>
    <message>
        <source>Port to listen on; 0 = any free one.</source>
        <translation>监听的端口；0 = 任意空闲端口。</translation>
    </message>
    <message>
        <source>Keys that clients must send, 16 characters or more each. Needed to listen beyond this machine.</source>
        <translation>客户端必须发送的密钥，每个至少 16 个字符。对本机以外开放时必需。</translation>
    </message>
    <message>
        <source>Further host names that requests may carry.</source>
        <translation>请求可以使用的其他主机名。</translation>
    </message>
    <message>
        <source>Origins of web pages that may use and control the server.</source>
        <translation>可以使用并控制服务器的网页来源。</translation>
    </message>
    <message>
        <source>Origins of web pages that may generate text (CORS).</source>
        <translation>可以生成文本的网页来源（CORS）。</translation>
    </message>
    <message>
        <source>Refuse requests that name another model than the served one.</source>
        <translation>拒绝指定其他模型名称的请求。</translation>
    </message>
    <message>
        <source>Requests that may wait; further ones get 429.</source>
        <translation>可以等待的请求数；更多的将得到 429。</translation>
    </message>
    <message>
        <source>Longest wait in the queue in seconds; then 503.</source>
        <translation>在队列中最长的等待秒数；之后返回 503。</translation>
    </message>
    <message>
        <source>Largest request body in MiB.</source>
        <translation>请求正文的最大大小（MiB）。</translation>
    </message>
    <message>
        <source>Silence in seconds after which a stream gets a keep-alive.</source>
        <translation>静默多少秒后，流会发送保活信息。</translation>
    </message>
    <message>
        <source>Load the model with the first request instead of at start.</source>
        <translation>首次请求时才加载模型，而不是在启动时。</translation>
    </message>
    <message>
        <source>Seconds without generation after which the model is unloaded; the next request loads it again. 0 = never.</source>
        <translation>无生成任务多少秒后卸载模型；下一个请求会重新加载。0 = 从不。</translation>
    </message>
    <message>
        <source>Refuse to load while less graphics memory is free, in MiB; needs the package `nvidia-ml-py`. 0 = not checked.</source>
        <translation>空闲显存少于此值（MiB）时拒绝加载；需要 `nvidia-ml-py` 包。0 = 不检查。</translation>
    </message>
    <message>
        <source>Program with its arguments, run before each load (to free a graphics card, say); loading goes on when it ends with exit status 0.</source>
        <translation>每次加载前运行的程序及其参数（例如用于释放显卡）；以退出状态 0 结束后继续加载。</translation>
    </message>
    <message>
        <source>Longest time in seconds that this program may take.</source>
        <translation>该程序最长可用的秒数。</translation>
    </message>
    <message>
        <source>Thinking level of requests that name none.</source>
        <translation>未指定级别的请求的思考级别。</translation>
    </message>
    <message>
        <source>Whether requests to /v1/messages that name no thinking level think: `when_asked` does not (Anthropic&apos;s own rule), `always` takes the level above.</source>
        <translation>未指定思考级别的 /v1/messages 请求是否思考：`when_asked` 不思考（Anthropic 的规则），`always` 采用上面的级别。</translation>
    </message>
    <message>
        <source>Most tokens that one answer may think for; 0 = no limit. A request may ask for less.</source>
        <translation>一个回答最多可用于思考的 token 数；0 = 不限。请求可以要求更少。</translation>
    </message>
    <message>
        <source>Lower a request&apos;s output cap to the room that the context leaves (said in a header) instead of refusing it.</source>
        <translation>将请求的输出上限降到上下文剩余空间（在响应头中说明），而不是拒绝请求。</translation>
    </message>
    <message>
        <source>End an answer when one token repeats this often in a row; 0 = never.</source>
        <translation>同一 token 连续重复这么多次时结束回答；0 = 从不。</translation>
    </message>
    <message>
        <source>MCP servers whose tools the chat window, and requests that ask for it, may use (docs/mcp.md).</source>
        <translation>聊天窗口和提出要求的请求可以使用其工具的 MCP 服务器（docs/mcp.md）。</translation>
    </message>
    <message>
        <source>Times that one answer may stop to call tools.</source>
        <translation>一个回答最多可以停下来调用工具的次数。</translation>
    </message>
    <message>
        <source>Longest run of one tool.</source>
        <translation>单个工具的最长运行时间。</translation>
    </message>
    <message>
        <source>Length at which a result is cut; the model is told.</source>
        <translation>结果被截断的长度；会告知模型。</translation>
    </message>
    <message>
        <source>How long a question waits for its answer; then it is no.</source>
        <translation>一个询问等待回答的时间；超时视为拒绝。</translation>
    </message>
    <message>
        <source>How long a server may take to start.</source>
        <translation>服务器启动可用的时间。</translation>
    </message>
    <message>
        <source>Base URL of an OpenAI-compatible server, such as http://host:8000/v1, that answers instead of a model on this machine (docs/scale.md).</source>
        <translation>代替本机模型回答的 OpenAI 兼容服务器的基础地址，例如 http://host:8000/v1（docs/scale.md）。</translation>
    </message>
    <message>
        <source>Key that the upstream asks for; as STRATUM_UPSTREAM_KEY in the environment no other user of the machine sees it.</source>
        <translation>上游服务器要求的密钥；设为环境变量 STRATUM_UPSTREAM_KEY 时，本机其他用户看不到。</translation>
    </message>
    <message>
        <source>Silence of the upstream in seconds after which a request ends with an error.</source>
        <translation>上游静默多少秒后，请求以错误结束。</translation>
    </message>
    <message>
        <source>How freely words are chosen; 0 takes the likeliest always.</source>
        <translation>选词的自由程度；0 表示总是取最可能的。</translation>
    </message>
    <message>
        <source>Chooses among the likeliest tokens that together have this probability.</source>
        <translation>在累计概率达到此值的最可能 token 中选择。</translation>
    </message>
    <message>
        <source>Chooses among so many of the likeliest tokens; 0 = all.</source>
        <translation>在这么多个最可能的 token 中选择；0 = 全部。</translation>
    </message>
    <message>
        <source>Leaves out tokens less likely than this share of the likeliest.</source>
        <translation>排除概率低于最可能 token 此比例的 token。</translation>
    </message>
    <message>
        <source>Makes tokens that were used less likely, however often they were.</source>
        <translation>降低已用过的 token 的概率，无论用过多少次。</translation>
    </message>
    <message>
        <source>Makes tokens less likely the more often they were used.</source>
        <translation>token 用得越多，概率越低。</translation>
    </message>
    <message>
        <source>Divides the likelihood of tokens that were used; 1 = off.</source>
        <translation>将已用过的 token 的概率除以此值；1 = 关闭。</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Computing</source>
        <translation>计算</translation>
    </message>
    <message>
        <source>Conversations in memory</source>
        <translation>内存中的会话</translation>
    </message>
    <message>
        <source>Server</source>
        <translation>服务器</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>加载</translation>
    </message>
    <message>
        <source>Answers</source>
        <translation>回答</translation>
    </message>
    <message>
        <source>Tools and other servers</source>
        <translation>工具与其他服务器</translation>
    </message>
    <message>
        <source>on or off</source>
        <translation>开或关</translation>
    </message>
    <message>
        <source>one of {choices}</source>
        <translation>{choices} 之一</translation>
    </message>
    <message>
        <source>a whole number</source>
        <translation>整数</translation>
    </message>
    <message>
        <source>a number</source>
        <translation>数字</translation>
    </message>
    <message>
        <source>a file</source>
        <translation>文件</translation>
    </message>
    <message>
        <source>texts of {n} characters or more, one a line</source>
        <translation>至少 {n} 个字符的文本，每行一个</translation>
    </message>
    <message>
        <source>texts, one a line</source>
        <translation>文本，每行一个</translation>
    </message>
    <message>
        <source>text</source>
        <translation>文本</translation>
    </message>
    <message>
        <source>{what} from {low} to {high}</source>
        <translation>{low} 到 {high} 的{what}</translation>
    </message>
    <message>
        <source>{what} of {low} or more</source>
        <translation>不小于 {low} 的{what}</translation>
    </message>
    <message>
        <source>{what} above {above} and up to {high}</source>
        <translation>大于 {above} 且不超过 {high} 的{what}</translation>
    </message>
    <message>
        <source>{what} above {above}</source>
        <translation>大于 {above} 的{what}</translation>
    </message>
    <message>
        <source>{what} up to {high}</source>
        <translation>不超过 {high} 的{what}</translation>
    </message>
</context>
<context>
    <name>RunPage</name>
    <message>
        <source>Model and engine</source>
        <translation>模型与引擎</translation>
    </message>
    <message>
        <source>Search settings</source>
        <translation>搜索设置</translation>
    </message>
    <message>
        <source>No setting has these words.</source>
        <translation>没有包含这些词的设置。</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>保存</translation>
    </message>
    <message>
        <source>Discard changes</source>
        <translation>放弃更改</translation>
    </message>
    <message>
        <source>Undo the last save</source>
        <translation>撤销上次保存</translation>
    </message>
    <message>
        <source>No model is installed yet. Add one on the page “Models”.</source>
        <translation>尚未安装模型。请在“模型”页面添加。</translation>
    </message>
    <message>
        <source>These settings are in {file}</source>
        <translation>这些设置保存在 {file}</translation>
    </message>
    <message>
        <source>Saved.</source>
        <translation>已保存。</translation>
    </message>
    <message>
        <source>Saved. It takes effect when the model is started again.</source>
        <translation>已保存，重新启动模型后生效。</translation>
    </message>
    <message>
        <source>The settings before the last save hold again.</source>
        <translation>已恢复上次保存之前的设置。</translation>
    </message>
</context>
<context>
    <name>ServerRow</name>
    <message>
        <source>On</source>
        <translation>开启</translation>
    </message>
    <message>
        <source>{name}: on</source>
        <translation>{name}：开启</translation>
    </message>
    <message>
        <source>Edit</source>
        <translation>编辑</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>移除</translation>
    </message>
    <message>
        <source>Off</source>
        <translation>已关闭</translation>
    </message>
    <message>
        <source>The running engine does not know it yet.</source>
        <translation>正在运行的引擎还不知道它。</translation>
    </message>
    <message>
        <source>Starts</source>
        <translation>正在启动</translation>
    </message>
    <message>
        <source>Ready, with {n} tools: {names}</source>
        <translation>就绪，有 {n} 个工具：{names}</translation>
    </message>
    <message>
        <source>Does not work: {reason}</source>
        <translation>无法工作：{reason}</translation>
    </message>
    <message>
        <source>Starts with the next use</source>
        <translation>下次使用时启动</translation>
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
        <translation>模型思考的最多 token 数；0 = 不限</translation>
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
    <name>SettingsView</name>
    <message>
        <source>General</source>
        <translation>常规</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Model and engine</source>
        <translation>模型与引擎</translation>
    </message>
    <message>
        <source>Network</source>
        <translation>网络</translation>
    </message>
    <message>
        <source>Tools (MCP)</source>
        <translation>工具（MCP）</translation>
    </message>
    <message>
        <source>Other programs</source>
        <translation>其他程序</translation>
    </message>
    <message>
        <source>Diagnostics</source>
        <translation>诊断</translation>
    </message>
    <message>
        <source>Pages of the settings</source>
        <translation>设置页面</translation>
    </message>
    <message>
        <source>Restart the model now</source>
        <translation>立即重启模型</translation>
    </message>
    <message>
        <source>{names} and {n} more</source>
        <translation>{names} 等另外 {n} 项</translation>
    </message>
    <message>
        <source>These settings wait for a restart: {names}</source>
        <translation>以下设置等待重启后生效：{names}</translation>
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
    <message>
        <source>The disk is full: what you wrote last could not be saved with your conversations. It is in {path}; import it once there is space.</source>
        <translation>磁盘已满：您最后写的内容无法与对话一起保存。它保存在 {path} 中；有空间后请将其导入。</translation>
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
        <translation>当前使用的是普通参考运算（{ops}），而不是快速内核。请将“运算实现”设为自动；“诊断”会说明内核为何不可用。</translation>
    </message>
    <message>
        <source>The processor computes alone. {reason} “Diagnostics” checks the card again.</source>
        <translation>仅由处理器计算。{reason} “诊断”会重新检查显卡。</translation>
    </message>
    <message>
        <source>The model process was started again {count} times after a crash. The log says why.</source>
        <translation>模型进程在崩溃后重启了 {count} 次。原因见日志。</translation>
    </message>
    <message>
        <source>{now} tokens/s now; {tuned} were measured on this PC when the settings were tuned. A long conversation explains some of it, other programs the rest.</source>
        <translation>现在 {now} token/秒；调优设置时在这台电脑上测得 {tuned}。部分原因是会话较长，其余来自其他程序。</translation>
    </message>
    <message>
        <source>{card} is {celsius} °C hot and slows itself down. Clean its fans, or give it more air.</source>
        <translation>{card} 温度达 {celsius} °C，正在降速。请清洁风扇或改善通风。</translation>
    </message>
    <message>
        <source>{card} runs at its power limit ({watts} W). That is usual under full load.</source>
        <translation>{card} 已达到功耗上限（{watts} W）。满负荷时这是正常的。</translation>
    </message>
    <message>
        <source>Other programs hold {size} of the memory of {card}. Close games and other programs that use the card.</source>
        <translation>其他程序占用了 {card} 的 {size} 显存。请关闭游戏和其他使用显卡的程序。</translation>
    </message>
    <message>
        <source>A screen hangs on {card} and takes some of its memory. Where the processor has graphics of its own, connect the screen there.</source>
        <translation>显示器连接在 {card} 上，占用了部分显存。如果处理器带有核显，请把显示器接到那里。</translation>
    </message>
    <message>
        <source>{card} is connected by PCIe {now}; {best} would be possible. Check the slot that it sits in.</source>
        <translation>{card} 当前以 PCIe {now} 连接，最高可达 {best}。请检查所在插槽。</translation>
    </message>
    <message>
        <source>The system fetches {rate} from the page file: memory is short. Close other programs, or choose a smaller model or a shorter context.</source>
        <translation>系统正以 {rate} 的速度从页面文件读回数据：内存不足。请关闭其他程序，或选择更小的模型、更短的上下文。</translation>
    </message>
    <message>
        <source>Only {free} of {total} of memory are free, so parts of the model may be pushed out. Close other programs.</source>
        <translation>内存 {total} 中仅剩 {free}，模型的一部分可能被换出。请关闭其他程序。</translation>
    </message>
    <message>
        <source>{rate} are read from the drive while the model answers: not all of it stays in memory. More memory, or a smaller model, helps.</source>
        <translation>模型回答时正以 {rate} 的速度读取硬盘：模型没有全部留在内存中。增加内存或使用更小的模型会有帮助。</translation>
    </message>
    <message>
        <source>The model lies on a disk that turns, where single rows are read slowly. Move it to an SSD (Settings, Models).</source>
        <translation>模型位于机械硬盘上，读取单行很慢。请将它移到固态硬盘（设置，模型）。</translation>
    </message>
    <message>
        <source>{program} takes {percent} % of the processor. Close it, or wait until it is done.</source>
        <translation>{program} 占用了 {percent} % 的处理器。请关闭它，或等待它完成。</translation>
    </message>
    <message>
        <source>The PC runs on its battery and saves power. Plug it in.</source>
        <translation>电脑正在使用电池并节电。请接通电源。</translation>
    </message>
    <message>
        <source>The processor runs at {ghz} of {best_ghz} GHz while the model answers. Choose the power plan for best performance, and check its cooling.</source>
        <translation>模型回答时处理器运行在 {ghz}/{best_ghz} GHz。请选择最佳性能的电源计划，并检查散热。</translation>
    </message>
    <message>
        <source>The engine runs with a lowered priority, so that other programs go first. Start it from this window.</source>
        <translation>引擎以较低优先级运行，其他程序优先。请从此窗口启动它。</translation>
    </message>
    <message>
        <source>Only {percent} % of {offered} drafted tokens were right, so drafting costs more than it brings. Some languages and random text cannot be drafted well.</source>
        <translation>{offered} 个草稿 token 中只有 {percent} % 正确，草稿的代价大于收益。某些语言和随机文本难以起草。</translation>
    </message>
    <message>
        <source>{percent} % of all prompt tokens were read anew instead of taken from memory. More memory for conversations helps programs that send long prompts.</source>
        <translation>{percent} % 的提示 token 被重新读取，而不是取自内存。为会话分配更多内存，有助于发送长提示的程序。</translation>
    </message>
    <message>
        <source>{percent} % of the time went into reading prompts. Shorter conversations, or fewer attached files, answer sooner.</source>
        <translation>{percent} % 的时间用于读取提示。较短的会话或较少的附件会更快得到回答。</translation>
    </message>
    <message>
        <source>Requests wait {seconds} s on average for their turn. Another program asks at the same time.</source>
        <translation>请求平均要等待 {seconds} 秒。另有程序同时在提问。</translation>
    </message>
    <message>
        <source>Memory reads {gb_per_s} GB/s here, and a token of this model reads {size}: that allows at most about {most_per_s} tokens/s without drafts.</source>
        <translation>这里的内存读取速度为 {gb_per_s} GB/秒，此模型每个 token 读取 {size}：不用草稿时最多约 {most_per_s} token/秒。</translation>
    </message>
    <message>
        <source>{gb_per_s} GB/s is slow for today&apos;s memory. Two equal modules and the profile for their full speed (XMP or EXPO in the BIOS) can double it.</source>
        <translation>{gb_per_s} GB/秒对如今的内存来说偏慢。使用两条相同的内存并启用其全速配置（BIOS 中的 XMP 或 EXPO）可使其翻倍。</translation>
    </message>
</context>
<context>
    <name>SlowPanel</name>
    <message>
        <source>Why is it slow?</source>
        <translation>为什么慢？</translation>
    </message>
    <message>
        <source>Look closer</source>
        <translation>详细检查</translation>
    </message>
    <message>
        <source>Measures memory and looks at other programs; takes some seconds.</source>
        <translation>测量内存并查看其他程序，需要几秒钟。</translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation>正在检查…</translation>
    </message>
    <message>
        <source>Measured on this PC, the gravest first:</source>
        <translation>在这台电脑上测得，最严重的在前：</translation>
    </message>
    <message>
        <source>Nothing unusual was measured.</source>
        <translation>没有测到异常。</translation>
    </message>
    <message>
        <source>Nothing unusual so far. A closer look measures more.</source>
        <translation>目前没有异常。详细检查会测量更多。</translation>
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
        <source>Checking the graphics card, once: {percent} %</source>
        <translation>首次检查显卡：{percent} %</translation>
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
