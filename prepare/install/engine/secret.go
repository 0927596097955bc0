package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// maxSecret bounds a secret, in bytes.
const maxSecret = 4096

// Secrets reads secrets where their references say, once, on the machine that this program
// runs on. They stay in memory.
type Secrets struct {
	// Prompt asks a person; nil refuses references to a person.
	Prompt func(name string) ([]byte, error)

	values map[string][]byte
}

// get returns a secret without the end of its line, which no person types.
func (s *Secrets) get(name, ref string) ([]byte, error) {
	if v, ok := s.values[name]; ok {
		return v, nil
	}
	v, err := s.read(name, ref)
	if err != nil {
		return nil, fault.Op("secret "+name, err)
	}
	v = bytes.TrimSuffix(bytes.TrimSuffix(v, []byte("\n")), []byte("\r"))
	if err := usable(name, v); err != nil {
		return nil, err
	}
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	s.values[name] = v
	return v, nil
}

// hash is what chpasswd -e keeps: a hash of crypt(5), or * or ! of an account without a password.
var hash = lazy.Compile(`^([*!]|!?\$[a-z0-9]+\$([^$:]*\$)*[./0-9A-Za-z]{22,})$`)

// SecretForm says what the secret of a name looks like: that of an account is not its password.
func SecretForm(name string) string {
	account, ok := accountOf(name)
	if !ok {
		return "one line"
	}
	return account + ":HASH; openssl passwd -6 or mkpasswd prints HASH"
}

// accountOf returns the account whose password a secret has.
func accountOf(name string) (account string, ok bool) {
	account, ok = strings.CutPrefix(name, "user-")
	return account, ok || name == "root"
}

// usable refuses a secret with which nobody could open the pool or log in. What it is instead is not shown.
func usable(name string, v []byte) error {
	wrong := func(fix, why string) error {
		return fault.WithFix(fault.New(fault.Invalid, "the secret %s %s", name, why), fix)
	}
	account, password := accountOf(name)
	user, hashed, _ := strings.Cut(string(v), ":")
	switch n := len(v); {
	case n == 0:
		return wrong("write "+SecretForm(name), "is empty")
	case n > maxSecret:
		return wrong("write "+SecretForm(name), fmt.Sprintf("is longer than %d bytes", maxSecret))
	case bytes.ContainsRune(v, '\n'):
		return wrong("write "+SecretForm(name), "has more than one line")
	case bytes.ContainsFunc(v, unicode.IsControl):
		return wrong("remove it: nobody can type it", "has a control character")
	case name == "pool" && (n < 8 || n > 512):
		return fault.WithFix(fault.New(fault.Invalid, "the passphrase of the pool has an unsuitable length: %d bytes", n),
			"choose one of 8 to 512 bytes")
	case password && user != account:
		return wrong("write "+SecretForm(name), "does not begin with "+account+":")
	case password && !hash.MatchString(hashed):
		return wrong("write "+SecretForm(name), "has no hash of a password after "+account+":")
	}
	return nil
}

func (s *Secrets) read(name, ref string) ([]byte, error) {
	kind, rest, _ := strings.Cut(ref, ":")
	switch kind {
	case "file":
		f, err := os.Open(rest)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, "open", err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return nil, fault.WithFix(
				fault.New(fault.Invalid, "other users can read %s (mode %o)", rest, info.Mode().Perm()),
				"run chmod 600 "+rest,
			)
		}
		return io.ReadAll(io.LimitReader(f, maxSecret+int64(len("\r\n"))+1))
	case "command":
		argv, err := spec.Command(ref)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, "command", err)
		}
		return conn.Output(context.Background(), local.Conn{}, argv...)
	}
	if s.Prompt == nil {
		return nil, fault.WithFix(fault.New(fault.Invalid, "bakeoff cannot ask for the secret: standard input is "+
			"not a terminal"),
			"use file:PATH or command:ARGV")
	}
	return s.Prompt(name)
}

// scrub replaces secrets in a text, in case a program prints one.
func (s *Secrets) scrub(text string) string {
	for name, v := range s.values {
		text = strings.ReplaceAll(text, string(v), "[secret "+name+"]")
	}
	return text
}
