package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"time"

	"bakeoff/measure/workload/http/load"
)

// KeyPair is a key and its certificate, in PEM, with the certificate's
// SHA-256.
type KeyPair struct {
	Key, Certificate []byte
	Sum              string
}

// keyOf returns a key of the kind "ecdsa-p256" or "rsa-4096". All environments
// use the same key: otherwise keys could differ in speed, and an RSA key takes
// seconds.
func keyOf(kind string) (crypto.Signer, error) {
	return firstResult("key "+kind, func() (crypto.Signer, error) {
		if kind == "rsa-4096" {
			return rsa.GenerateKey(rand.Reader, 4096)
		}
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	})
}

// SelfSigned makes a certificate for addr and the key of this kind.
func SelfSigned(kind string, addr netip.Addr) (KeyPair, error) {
	key, err := keyOf(kind)
	if err != nil {
		return KeyPair{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "bakeoff"},
		// A long validity, because the clocks of guests may be wrong.
		NotBefore:   time.Unix(0, 0),
		NotAfter:    time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{addr.AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return KeyPair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Sum:         load.SumOf(der),
	}, nil
}
