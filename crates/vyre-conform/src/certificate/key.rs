//! Keys: Ed25519, in the PEM files that every tool reads (PKCS#8 and SubjectPublicKeyInfo).

use super::CertificateError;
use super::statement::{Hex, parse_hex};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes,
};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::fmt;

/// A key that signs certificates.
pub struct SecretKey(SigningKey);

/// A key that checks signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl SecretKey {
    /// A new key, from the system's random numbers.
    ///
    /// # Panics
    /// If the system has none.
    pub fn generate() -> SecretKey {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the system has random numbers");
        SecretKey(SigningKey::from_bytes(&seed))
    }

    /// Reads a PEM file's text (`BEGIN PRIVATE KEY`).
    pub fn from_pem(text: &str) -> Result<SecretKey, CertificateError> {
        SigningKey::from_pkcs8_pem(text).map(SecretKey).map_err(|_| CertificateError {
            message: "no PEM file with an Ed25519 private key".into(),
            fix: "make one with the command `keygen`".into(),
        })
    }

    /// The PEM file's text. Keep it where only you can read it.
    pub fn to_pem(&self) -> String {
        // The form with the public key in it is younger, and some tools cannot read it.
        let key = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = key.to_pkcs8_pem(LineEnding::LF).expect("an Ed25519 key has a PKCS#8 form");
        pem.as_str().to_owned()
    }

    /// The key that its signatures are checked with.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl PublicKey {
    /// Reads a PEM file's text (`BEGIN PUBLIC KEY`), or 64 hexadecimal digits as [`Display`](fmt::Display) gives.
    pub fn parse(text: &str) -> Result<PublicKey, CertificateError> {
        let text = text.trim();
        let key = match parse_hex(text) {
            Some(bytes) => VerifyingKey::from_bytes(&bytes).ok(),
            None => VerifyingKey::from_public_key_pem(text).ok(),
        };
        // A weak key has signatures that fit any message.
        key.filter(|key| !key.is_weak()).map(PublicKey).ok_or_else(|| CertificateError {
            message: "no Ed25519 public key".into(),
            fix: "give the 64 digits that `keygen` printed, or the file it wrote beside the private key"
                .into(),
        })
    }

    /// The PEM file's text.
    pub fn to_pem(&self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).expect("an Ed25519 key has a PEM form")
    }

    pub(crate) fn from_hex(hex: Hex) -> Option<PublicKey> {
        VerifyingKey::from_bytes(&hex.0).ok().map(PublicKey)
    }

    pub(crate) fn hex(&self) -> Hex {
        Hex(self.0.to_bytes())
    }

    /// How envelopes name the key.
    pub(crate) fn id(&self) -> Hex {
        let mut hasher = blake3::Hasher::new_derive_key("vyre conformance key v1");
        Hex(*hasher.update(self.0.as_bytes()).finalize().as_bytes())
    }

    /// Strictly: no weak keys, no second form of one signature.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hex().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_files() {
        let key = SecretKey::generate();
        let again = SecretKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.public(), key.public());
        let public = key.public();
        assert_eq!(PublicKey::parse(&public.to_pem()), Ok(public));
        assert_eq!(PublicKey::parse(&format!("{public}\n")), Ok(public));
        assert!(public.verifies(b"it", &key.sign(b"it")));
        assert!(!public.verifies(b"ti", &key.sign(b"it")));
    }

    #[test]
    fn what_is_no_key_is_refused_with_a_fix() {
        for text in ["", "0", &"00".repeat(32), &SecretKey::generate().to_pem()] {
            assert!(PublicKey::parse(text).unwrap_err().fix.contains("64 digits"), "{text}");
        }
        let public = SecretKey::generate().public().to_pem();
        assert!(SecretKey::from_pem(&public).is_err_and(|error| error.fix.contains("keygen")));
    }

    #[test]
    fn a_key_of_another_tool_is_read() {
        // RFC 8410, section 10.3.
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        let key = SecretKey::from_pem(pem).unwrap();
        assert_eq!(key.to_pem(), pem);
        assert_eq!(key.public().to_pem(), public);
        assert_eq!(PublicKey::parse(public), Ok(key.public()));
    }
}
