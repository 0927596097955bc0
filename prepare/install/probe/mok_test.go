package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"math/big"
	"strings"
	"testing"
	"time"

	"bakeoff/prepare/install/installed"
)

// certificate makes a certificate.
func certificate(t testing.TB, name string, serial int64) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// signatureList makes an EFI_SIGNATURE_LIST with one entry.
func signatureList(kind, entry []byte) (out []byte) {
	out = append(out, kind...)
	for _, n := range []int{28 + 16 + len(entry), 0, 16 + len(entry)} {
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	out = append(out, make([]byte, 16)...) // the owner
	return append(out, entry...)
}

// TestOwnerKeys reads the keys of the machine owner.
func TestOwnerKeys(t *testing.T) {
	digest := signatureList([]byte("a type of digest"), make([]byte, 32))
	vendor := signatureList(certificateList, certificate(t, "Example Secure Boot CA", 0x1234))
	own := signatureList(certificateList, certificate(t, "DKMS module signing key", 0xab00cd))
	const vars, guid = "/sys/firmware/efi/efivars/", "-605dab50-e046-4300-abb6-3dd810dd8b23"
	read := func(change func(recorded)) []installed.Certificate {
		t.Helper()
		r := machineOfTheGuide()
		change(r)
		s, err := Read(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return s.Firmware.MOK
	}
	value := func(lists ...[]byte) string {
		out := "\x06\x00\x00\x00"
		for _, l := range lists {
			out += string(l)
		}
		return out
	}
	if got := read(func(recorded) {}); got == nil || len(got) != 0 {
		t.Errorf("without shim: %v", got)
	}
	got := read(func(r recorded) {
		r.files[vars] += " MokListRT" + guid + " MokListRT1" + guid + " MokListTrustedRT" + guid
		r.files[vars+"MokListRT"+guid] = value(digest, vendor)
		r.files[vars+"MokListRT1"+guid] = value(own)
	})
	if len(got) != 2 || got[0].Subject != "Example Secure Boot CA" || got[1] != (installed.Certificate{
		Subject: "DKMS module signing key", Serial: "AB:00:CD"}) {
		t.Errorf("%+v", got)
	}
	got = read(func(r recorded) {
		r.files["/sys/firmware/efi/mok-variables/"] = "MokListRT MokListXRT"
		r.files["/sys/firmware/efi/mok-variables/MokListRT"] = string(own)
	})
	if len(got) != 1 || got[0].Serial != "AB:00:CD" {
		t.Errorf("from mok-variables: %+v", got)
	}
	for name, bad := range map[string]string{"cut": value(own)[:100], "empty": "", "no certificate": value(
		signatureList(certificateList, []byte("x")))} {
		if got := read(func(r recorded) {
			r.files[vars] += " MokListRT" + guid
			r.files[vars+"MokListRT"+guid] = bad
		}); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := read(func(r recorded) { delete(r.files, vars) }); got != nil {
		t.Errorf("unknown variables: %+v", got)
	}
}

// TestModuleKey reads who signed the module.
func TestModuleKey(t *testing.T) {
	r := machineOfTheGuide()
	key := func() *string {
		s, err := Read(t.Context(), r)
		if err != nil || len(s.Kernels) != 1 {
			t.Fatalf("%+v, %v", s.Kernels, err)
		}
		return s.Kernels[0].ZFSModuleKey
	}
	if k := key(); k != nil {
		t.Errorf("unknown: %q", *k)
	}
	r.commands["modinfo -k 6.12 -F sig_id zfs"] = "\n"
	if k := key(); k == nil || *k != "" {
		t.Errorf("not signed: %v", k)
	}
	r.commands["modinfo -k 6.12 -F sig_id zfs"], r.commands["modinfo -k 6.12 -F sig_key zfs"] = "PKCS#7\n", "AB:00:CD\n"
	if k := key(); k == nil || *k != "AB:00:CD" {
		t.Errorf("signed: %v", k)
	}
	r.commands["modinfo -k 6.12 -F sig_key zfs"] = "\n"
	if k := key(); k != nil {
		t.Errorf("a modinfo without libcrypto: %q", *k)
	}
}

func FuzzCertificates(f *testing.F) {
	f.Add(signatureList(certificateList, certificate(f, "a", 1)))
	f.Add(signatureList([]byte(strings.Repeat("x", 16)), []byte("digest")))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range certificates(data) {
			if c.Serial == "" && c.Subject == "" && len(data) < 28 {
				t.Error("a certificate of nothing")
			}
		}
	})
}
