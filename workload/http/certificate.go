package http

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
)

// keyPair is a key and its certificate, in PEM, with the certificate's
// SHA-256.
type keyPair struct {
	key, certificate []byte
	sum              string
}

// selfSigned makes a key of the kind "ecdsa-p256" or "rsa-4096" and a
// certificate for addr.
func selfSigned(kind string, addr netip.Addr) (keyPair, error) {
	var key crypto.Signer
	var err error
	if kind == "rsa-4096" {
		key, err = rsa.GenerateKey(rand.Reader, 4096)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return keyPair{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "bakeoff"},
		// Wide, since the clocks of guests may be anywhere.
		NotBefore:   time.Unix(0, 0),
		NotAfter:    time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{addr.AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return keyPair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		sum:         sumOf(der),
	}, nil
}
