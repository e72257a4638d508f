"""Conversations for the tests of the app."""

from app.history.records import Conversation, Message, MessageState, Role, new_id


def add_conversation(store, *texts, title="Title"):
    """A conversation with these texts, questions and answers in turns; itself and its messages."""
    conversation_id, messages = new_id(), []
    for index, text in enumerate(texts):
        parent_id = messages[-1].id if messages else None
        role = Role.ASSISTANT if index % 2 else Role.USER
        messages.append(Message(new_id(), conversation_id, parent_id, role, text=text))
    leaf = messages[-1].id if messages else None
    conversation = Conversation(id=conversation_id, title=title, active_leaf=leaf)
    store.put_conversation(conversation)
    for message in messages:
        store.put_message(message)
    return conversation, messages


def growing(conversation_id, parent_id=None):
    """An answer that is being made."""
    return Message(
        id=new_id(),
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=Role.ASSISTANT,
        state=MessageState.GROWING,
    )
