<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en" sourcelanguage="en">
<context>
    <name>Composer</name>
    <message numerus="yes">
        <source>%n file(s) being read</source>
        <translation>
            <numerusform>%n file is being read</numerusform>
            <numerusform>%n files are being read</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>ConversationList</name>
    <message numerus="yes">
        <source>%n conversation(s) imported</source>
        <translation>
            <numerusform>%n conversation imported</numerusform>
            <numerusform>%n conversations imported</numerusform>
        </translation>
    </message>
</context>
</TS>
