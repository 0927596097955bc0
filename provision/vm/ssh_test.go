package vm

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// A key that ssh-keygen has made.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl user@host"

func TestPublicKeys(t *testing.T) {
	keys, err := parsePublicKeys("# mine\n\n" + publicKey + "\r\nno-pty " + publicKey + "\n")
	if err != nil || len(keys) != 2 || keys[0] != publicKey || keys[1] != "no-pty "+publicKey {
		t.Errorf("%q, %v", keys, err)
	}
	for text, want := range map[string]string{
		"":             "the text contains no public key",
		"# a comment":  "the text contains no public key",
		"ssh-ed25519 ": "line 1 is not a public key",
		publicKey + "\n" + strings.Replace(publicKey, "AAAAC3", "AAAAC4", 1): "line 2 is not",
		"ssh-rsa" + strings.TrimPrefix(publicKey, "ssh-ed25519"):             "line 1 is not",
		publicKey + " \x1b[2J":                   "line 1 is not",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nx": "this is a private key",
	} {
		if keys, err := parsePublicKeys(text); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, keys, err)
		}
	}
}

func FuzzPublicKeys(f *testing.F) {
	f.Add(publicKey)
	f.Add("a AAAAAWE=")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parsePublicKeys(text)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("%q, %v", keys, err)
		}
		again, err := parsePublicKeys(strings.Join(keys, "\n"))
		if len(keys) > 0 && (err != nil || len(again) != len(keys)) {
			t.Errorf("%q are read as %q, %v", keys, again, err)
		}
	})
}
