"""JAAS texts. What is accepted, and with which values, was compared with Kafka 4.3's own parser."""

import pytest

from tailrace.security.jaas import JaasError, LoginModule, parse_jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_the_text_of_a_client() -> None:
    login = parse_jaas(f'{SCRAM} required username="a" password="b\\"c" tokenauth="true";')
    assert (login.module, login.username, login.password, login.is_token) == (LoginModule.SCRAM, "a", 'b"c', True)
    assert login.module.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert repr(login) == "Login(SCRAM, options password, tokenauth, username)"


def test_the_text_of_a_broker() -> None:
    login = parse_jaas(f'{PLAIN} required\n  username="admin"\n  password="x"\n  user_admin="x"\n  user_a.b-c=\'y\';\n')
    assert login.options == {"username": "admin", "password": "x", "user_admin": "x", "user_a.b-c": "y"}
    assert not login.is_token
    assert login.module.mechanisms == ("PLAIN",)


def test_the_module_of_zookeeper_is_no_module_of_a_listener() -> None:
    text = f'{LoginModule.ZOOKEEPER.value} required username="a" password="b";'
    login = parse_jaas(text, (LoginModule.ZOOKEEPER,))
    assert (login.username, login.password, login.module.mechanisms) == ("a", "b", ("DIGEST-MD5",))
    with pytest.raises(JaasError, match=r"DigestLoginModule is not a known login module; known are org\.apache\.kafka"):
        parse_jaas(text)
    with pytest.raises(JaasError, match=r"is not a known login module; known are org\.apache\.zookeeper") as caught:
        parse_jaas(f"{SCRAM} required;", (LoginModule.ZOOKEEPER,))
    assert "org.apache.kafka.common.security.plain" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a=a10.5-x_$y", {"a": "a10.5-x_$y"}),
        ("a='it\"s' b=\"it's\"", {"a": 'it"s', "b": "it's"}),
        (r'a="\101\n\q\477\0"', {"a": "A\nq'7\0"}),
        (r'a="\\"', {"a": "\\"}),
        ('// c\n a=b /* d ; */ c="/"', {"a": "b", "c": "/"}),
        ("a=b / comment\n c=d", {"a": "b", "c": "d"}),
        ("a=é世", {"a": "é世"}),
        ('"k e"=v', {"k e": "v"}),
        ('a=""', {"a": ""}),
        ('a=";"', {"a": ";"}),
        ('n="10"', {"n": "10"}),
    ],
)
def test_options(options: str, expected: dict[str, str]) -> None:
    assert parse_jaas(f"{SCRAM} REQUIRED {options};").options == expected


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "line 1 column 1", "the class of a login module is missing"),
        (f"{SCRAM}", "line 1 column 56", "a control flag, such as required is missing"),
        (f"{SCRAM} maybe;", "line 1 column 57", "the control flag is one of"),
        (f"{SCRAM} required", "line 1 column 65", "does not end with a semicolon"),
        (f'{SCRAM} required\n a="b"', "line 2 column 7", "does not end with a semicolon"),
        (f"{SCRAM} required\n a;", "line 2 column 3", "an option has no value"),
        (f"{SCRAM} required\n a= ;", "line 2 column 5", "a value of an option is expected"),
        (f"{SCRAM} required\n a=10;", "line 2 column 4", "in quotes"),
        (f"{SCRAM} required\n a=-x;", "line 2 column 4", "in quotes"),
        (f"{SCRAM} required\n a=b, c=d;", "line 2 column 5", "the name of an option or a semicolon is expected"),
        (f"{SCRAM} required\n a=b/c;", "line 2 column 8", "does not end with a semicolon"),
        (f"{SCRAM} required\n =b;", "line 2 column 2", "the name of an option or a semicolon is expected"),
        (f'{SCRAM} required\n a="secret;', "line 2 column 4", "the quote has no end on its line"),
        (f'{SCRAM} required\n a="secret\n";', "line 2 column 4", "the quote has no end on its line"),
        (f"{SCRAM} required /* a=b;", "line 1 column 66", "the comment has no end"),
        (f"{SCRAM} required password=my secret;", "line 1 column 84", "an option has no value"),
        ("secret", "line 1 column 1", "this is not a known login module"),
        (f"{SCRAM} required a=x a=y;", "line 1 column 70", "an option is given twice"),
        (f"{SCRAM} required; {SCRAM} required;", "line 1 column 67", "one login module is allowed"),
        (f"{SCRAM} required;;", "line 1 column 66", "one login module is allowed"),
        (f"{PLAIN} required user_a@b=x;", "line 1 column 72", "option user_ has no value"),
        ("com.example.MyLoginModule required;", "line 1 column 1", "com.example.MyLoginModule is not a known"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "line 1 column 1", "is not a known login module"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "line 1 column 1", "GSSAPI (Kerberos) is not"),
        ("com.ibm.security.auth.module.Krb5LoginModule required;", "line 1 column 1", "GSSAPI (Kerberos) is not"),
        ("12 required;", "line 1 column 1", "the class of a login module is expected"),
    ],
)
def test_errors_name_the_place_and_no_secret(text: str, place: str, message: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)
    assert place in str(caught.value)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value)
