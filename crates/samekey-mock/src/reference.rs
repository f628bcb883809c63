//! The short reference that a customer reads aloud: twelve hex digits of the key and a check character.

const ALPHABET: &[u8; 31] = b"0123456789ABCDEFGHJKMNPQRSTVWXY";
const DIGITS: usize = 12;

/// The reference of a key, `7D3F-92AB-1C4E-7`; none where the key does not begin with twelve hex
/// digits (dashes aside).
pub fn of_key(key: &str) -> Option<String> {
    let digits: Option<Vec<u32>> = key
        .chars()
        .filter(|c| *c != '-')
        .take(DIGITS)
        .map(|c| c.to_digit(16))
        .collect();
    let digits = digits.filter(|d| d.len() == DIGITS)?;
    let mut text = String::with_capacity(16);
    for (i, digit) in digits.iter().enumerate() {
        if i > 0 && i % 4 == 0 {
            text.push('-');
        }
        text.push(char::from_digit(*digit, 16)?.to_ascii_uppercase());
    }
    text.push('-');
    text.push(check(&digits));
    Some(text)
}

/// The twelve hex digits, lower case, of a reference as somebody typed it: case, spaces and dashes
/// do not matter, O counts as 0, I and L as 1. None where the check character does not fit.
pub fn digits(typed: &str) -> Option<String> {
    let clean: Vec<char> = typed
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect();
    let (last, hex) = clean.split_last()?;
    let digits: Vec<u32> = hex.iter().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    (digits.len() == DIGITS && check(&digits) == *last)
        .then(|| hex.iter().collect::<String>().to_ascii_lowercase())
}

fn check(digits: &[u32]) -> char {
    let sum: u32 = digits
        .iter()
        .zip(1..)
        .map(|(digit, place)| digit * place)
        .sum();
    char::from(ALPHABET[(sum % 31) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_survives_the_way_people_type_it() {
        let key = "7d3f92ab-1c4e-4b1d-9a55-0d2f6f1f2a3b";
        let reference = of_key(key).unwrap();
        assert_eq!(reference, "7D3F-92AB-1C4E-7");
        for typed in [
            reference.to_lowercase(),
            reference.replace('-', " "),
            reference.clone(),
        ] {
            assert_eq!(digits(&typed).as_deref(), Some("7d3f92ab1c4e"), "{typed}");
        }
    }

    #[test]
    fn a_slip_of_one_digit_is_noticed() {
        let reference = of_key("00000000-0000-4000-8000-000000000000").unwrap();
        let slip = reference.replacen('0', "5", 1);
        assert_eq!(digits(&slip), None);
        assert_eq!(
            digits(&reference.replace('0', "O")).as_deref(),
            Some("000000000000")
        );
    }

    #[test]
    fn keys_that_are_not_hex_have_no_reference() {
        assert_eq!(of_key("order-42"), None);
        assert_eq!(of_key("abc"), None);
    }
}
