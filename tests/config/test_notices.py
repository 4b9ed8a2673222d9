"""The map ``notify``: rules in the order of their names, and refusals that name the key, the place and the way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.notices import read_notices
from longshore.config.yaml_text import parse_yaml
from longshore.errors import ConfigError
from longshore.model.notice import NoticeEvent, NoticeRule, SecretReference


def rules(text: str) -> tuple[NoticeRule, ...]:
    return read_notices(parse_yaml(text, "run.yaml"))


def test_every_key_is_read() -> None:
    assert rules(
        "{mail: {command: 'mail jdoe', events: [end, start]},"
        " chat: {webhook: {env: CHAT}, format: slack, timeout: 1m, events: firstFailure}}"
    ) == (
        NoticeRule(
            name="chat",
            events=(NoticeEvent.FIRST_FAILURE,),
            webhook=SecretReference(env="CHAT"),
            format="slack",
            timeout_s=60.0,
        ),
        NoticeRule(name="mail", events=(NoticeEvent.START, NoticeEvent.END), command="mail jdoe"),
    )


def test_the_end_is_told_where_no_event_is_written() -> None:
    assert rules("{mail: {command: 'true'}}")[0].events == (NoticeEvent.END,)
    assert rules("{mail: {command: 'true', events: null, timeout: null}}") == rules("{mail: {command: 'true'}}")


@pytest.mark.parametrize("text", ["{}", "null", "{mail: null}"])
def test_nothing_is_written(text: str) -> None:
    assert rules(text) == ()


def test_there_may_be_no_map() -> None:
    assert read_notices(None) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mail", "'notify' must be a map, not 'mail'"),
        ("{mail: jdoe}", "'notify.mail' must be a map, not 'jdoe'"),
        ("{mail: {comand: x}}", "'notify.mail' has no key 'comand'"),
        ("{mail: {}}", "'notify.mail' must have either a command or a webhook, and has neither"),
        (
            "{mail: {command: x, webhook: {env: Y}}}",
            "'notify.mail' must have either a command or a webhook, and has b",
        ),
        ("{mail: {command: [x]}}", "'notify.mail.command' must be a text"),
        ("{mail: {command: ''}}", "'notify.mail.command' is empty"),
        ("{mail: {command: ' '}}", "'notify.mail.command' is empty"),
        ("{chat: {webhook: {env: ''}}}", "'notify.chat.webhook.env' is empty"),
        ("{mail: {command: x, events: []}}", "'notify.mail.events' is empty, so the rule would never send a notice"),
        (
            "{mail: {command: ./tell.sh now}}",
            "'notify.mail.command' starts in the directory of the run, where './tell.sh' is not",
        ),
        ("{mail: {command: x, events: [ends]}}", "'notify.mail.events' has no event 'ends'"),
        ("{mail: {command: x, events: [[end]]}}", "'notify.mail.events' has no event"),
        ("{mail: {command: x, timeout: soon}}", "'notify.mail.timeout' must be a time span"),
        ("{mail: {command: x, timeout: 0}}", "'notify.mail.timeout' must be between 1 s and 10 minutes, not '0'"),
        (
            "{chat: {webhook: 'https://chat.example.org/s3cret'}}",
            "'notify.chat.webhook' must name the variable or",
        ),
        ("{chat: {webhook: {url: x}}}", "'notify.chat.webhook' has no key 'url'"),
        ("{chat: {webhook: {}}}", "'notify.chat.webhook' must have either env or file"),
        ("{chat: {webhook: {env: A, file: b}}}", "'notify.chat.webhook' must have either env or file"),
        ("{chat: {webhook: {env: A}, format: xml}}", "'notify.chat.format' has no format 'xml'"),
    ],
)
def test_other_values_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(text)
    assert caught.value.message.startswith(message)
    assert caught.value.origin is not None
    assert "s3cret" not in str(caught.value), "an address is a secret"


@given(st.sets(st.sampled_from(list(NoticeEvent)), min_size=1), st.randoms(use_true_random=False))
def test_events_come_in_the_order_of_a_run(events: set[NoticeEvent], chance: object) -> None:
    written = sorted(events)
    chance.shuffle(written)  # type: ignore[attr-defined]
    read = rules(f"{{mail: {{command: x, events: [{', '.join(written)}]}}}}")[0].events
    assert read == tuple(event for event in NoticeEvent if event in events)
