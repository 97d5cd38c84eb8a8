from fairaudit.errors import ConfigError


def test_a_word_of_thousands_of_characters_does_not_bury_the_message():
    said = str(ConfigError(f"unknown preset '{'a' * 5000}'", hint="known: xu-adult"))
    assert len(said) < 400
    assert said.startswith("unknown preset 'aaa")
    assert said.endswith("(known: xu-adult)")
