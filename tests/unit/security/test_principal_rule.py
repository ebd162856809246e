"""Rules that map subjects to users. The results were compared with Kafka 4.3's own SslPrincipalMapper."""

import pytest

from tailrace.security.principal_rule import InvalidRule, NoMatchingRule, PrincipalRules

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SUBJECT),
        (" , DEFAULT ,", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L, DEFAULT", "duke@serviceusers"),
        ("RULE:^CN=(.*?),.*$/$1/U", "DUKE"),
        ("RULE:x/y/,RULE:^CN=(.*?),.*$/$1/", "Duke"),
        ("RULE:x/y/,DEFAULT", SUBJECT),
        ("RULE:.*/X/", "XX"),
        ("RULE:CN=(.*?),.*?/$1/", "DukeOU=ServiceUsers,O=Org,C=US"),
        ("RULE:^CN=(.*?),.*$/$1@$4/", "Duke@$4"),
        ("RULE:^CN=(.*?),.*$/$4@$5/", "$4@$5"),  # Kafka fails at the login here
        ("RULE:^CN=(.*?),.*$/$12/U", "DUKE2"),
        ("RULE:^CN=(.*?),.*$/$01/U", "DUKE"),
        ("RULE:^CN=(.*?),.*$/$0/U", SUBJECT.upper()),
        ("RULE:^CN=(.*?),.*$/a\\/b$1/", "a/bDuke"),
        ("RULE:^CN=(?<n>.*?),.*$/${n}/", "Duke"),
        ("RULE:^CN=(a,b|D.*?),.*$/$1/, RULE:.*/n/", "Duke"),
        ("RULE:^CN=(.*?),.*$/$1/  ,RULE:b/c/", "Duke"),
        ("RULE:^CN=(.*?),.*$/\\$1\\\\/", "$1\\"),
        ("RULE:^CN=(.*?),.*$/ $1 /L", " duke "),
        ("RULE:^CN=(.*?),.*$/$1,x/L", "duke,x"),
        ("RULE:^CN=(.*?),(?:OU=(x)|.*)*$/$1$2/", "Duke"),
    ],
)
def test_rules(rules: str, name: str) -> None:
    assert PrincipalRules(rules).name(SUBJECT) == name


def test_without_rules_the_subject_is_the_name() -> None:
    assert PrincipalRules().name(SUBJECT) == SUBJECT


@pytest.mark.parametrize(
    "rules", ["", " , ", "RULE:x/y/", "RULE:^cn=(.*?),.*$/$1/", "RULE: ^CN=(.*?),.*$/$1/L", "RULE:CN=Duke/x/"]
)
def test_a_subject_without_a_rule_is_refused(rules: str) -> None:
    with pytest.raises(NoMatchingRule, match="no rule matches the subject CN=Duke"):
        PrincipalRules(rules).name(SUBJECT)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(NoMatchingRule, match="an empty name"):
        PrincipalRules("RULE:^CN=(.*?),.*$//,DEFAULT").name(SUBJECT)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("foo", "rule 1 .* left over: foo"),
        ("default", "left over: default"),
        ("RULE:a/b/L,DEFAULTx", "rule 2 .* left over: x"),
        ("RULE:^CN=(.*?),.*$/$1/LU", "left over: U"),
        ("RULE:^CN=(.*?),.*$/$1/l", "left over: l"),
        ("RULE:^CN=(.*?),.*$/$1", "left over: RULE"),
        ("RULE:^CN=(.*?),.*$/x\\", "left over: RULE"),
        ("RULE:a/b/L DEFAULT", "left over: DEFAULT"),
        ("DEFAULT RULE:a/b/", "left over: RULE"),
        ("RULE://x/", "left over: x/"),
        ("RULE:[/x/", "the pattern is not valid"),
        ("RULE:(?=a)/x/", "the pattern is not valid"),
        ("RULE:^.*$/$1/", "the pattern has no group 1"),
        ("RULE:(a)/${n}/", "the pattern has no group n"),
        ("RULE:(a)/a$b/", "a dollar sign"),
        ("RULE:(a)/$$1/", "a dollar sign"),
        ("RULE:(a)/$/", "a dollar sign"),
    ],
)
def test_rules_that_are_not_valid(rules: str, message: str) -> None:
    with pytest.raises(InvalidRule, match=message):
        PrincipalRules(rules)


def test_a_pattern_takes_linear_time() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalRules("RULE:(a+)+b/x/").name("a" * 5000)
