//! The file around a statement: a DSSE envelope.
//!
//! `{"payloadType":...,"payload":BASE64,"signatures":[{"keyid":...,"sig":BASE64}]}` and a newline, in exactly that form.
//! The signature covers the payload's type and bytes, each with its length.

use super::CertificateError;
use super::key::{PublicKey, SecretKey};
use super::statement::{Hex, Statement};
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};

/// The type of a payload that is an in-toto statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// No certificate comes near this, but a file from an unknown source may.
pub(crate) const FILE_BYTES_MAX: usize = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    keyid: Hex,
    sig: String,
}

/// The signed bytes: the payload with its type, unambiguously.
fn pre_authentication(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// The signature of a statement.
pub(super) fn sign(statement: &Statement, key: &SecretKey) -> [u8; 64] {
    key.sign(&pre_authentication(&statement.to_json()))
}

/// The file of a statement, with the signature of the key that it names.
pub(super) fn write(statement: &Statement, signature: Option<&[u8; 64]>) -> String {
    let signer = statement.predicate.signer.and_then(PublicKey::from_hex);
    let signatures = signer.into_iter().zip(signature);
    let envelope = Envelope {
        payload_type: PAYLOAD_TYPE.into(),
        payload: Base64::encode_string(&statement.to_json()),
        signatures: signatures
            .map(|(key, signature)| Signed { keyid: key.id(), sig: Base64::encode_string(signature) })
            .collect(),
    };
    let mut json = serde_json::to_string(&envelope).expect("an envelope has a JSON form");
    json.push('\n');
    json
}

/// Reads a file exactly as [`write`] wrote it: the statement, and its signature if it has one.
pub(super) fn read(file: &[u8]) -> Result<(Statement, Option<[u8; 64]>), CertificateError> {
    let form = |why: &str| CertificateError::form(why.into());
    if file.len() > FILE_BYTES_MAX {
        return Err(form(&format!("{} bytes are more than any certificate has", file.len())));
    }
    let envelope: Envelope =
        serde_json::from_slice(file).map_err(|error| form(&format!("envelope: {error}")))?;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(form("the payload is of another type"));
    }
    let payload = Base64::decode_vec(&envelope.payload).map_err(|_| form("the payload is not base64"))?;
    let signature = match envelope.signatures.as_slice() {
        [] => None,
        [one] => {
            let mut bytes = [0; 64];
            let decoded = Base64::decode(&one.sig, &mut bytes);
            if !decoded.is_ok_and(|decoded| decoded.len() == 64) {
                return Err(form("the signature is not 64 bytes of base64"));
            }
            Some((one.keyid, bytes))
        }
        _ => return Err(form("there is more than one signature")),
    };
    // The cheapest answer to a changed file comes first: its signature.
    if let Some((keyid, signature)) = &signature {
        check_signature(&payload, *keyid, signature)?;
    }
    let statement = Statement::from_json(&payload)?;
    match (statement.predicate.signer, &signature) {
        (None, Some(_)) => return Err(CertificateError::signature("it is signed and names no signer")),
        (Some(_), None) => return Err(CertificateError::signature("it names a signer and is not signed")),
        (None, None) | (Some(_), Some(_)) => {}
    }
    let signature = signature.map(|(_, signature)| signature);
    if write(&statement, signature.as_ref()).as_bytes() != file {
        return Err(form("the envelope is not in its canonical form"));
    }
    Ok((statement, signature))
}

/// The one field that is needed before the signature is known to be right.
#[derive(Deserialize)]
struct SignerOnly {
    predicate: PredicateSigner,
}

#[derive(Deserialize)]
struct PredicateSigner {
    signer: Option<Hex>,
}

/// Whether the payload is signed by the key that it names, and the key by its id.
fn check_signature(payload: &[u8], keyid: Hex, signature: &[u8; 64]) -> Result<(), CertificateError> {
    let named: SignerOnly = serde_json::from_slice(payload)
        .map_err(|error| CertificateError::form(format!("statement: {error}")))?;
    let key = named.predicate.signer.and_then(PublicKey::from_hex);
    let key = key.ok_or_else(|| CertificateError::signature("it names no key that signatures have"))?;
    if key.id() != keyid {
        return Err(CertificateError::signature("the key id is not that of the key it names"));
    }
    match key.verifies(&pre_authentication(payload), signature) {
        true => Ok(()),
        false => Err(CertificateError::signature("the signature is not that of the key it names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_as_the_envelope_format_says() {
        let signed = pre_authentication(b"{}");
        assert_eq!(signed, b"DSSEv1 28 application/vnd.in-toto+json 2 {}");
    }
}
