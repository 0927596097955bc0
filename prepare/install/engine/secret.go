package engine

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"

	"bakeoff/base/fault"
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

// get returns a secret without the newline at its end, which no person types.
func (s *Secrets) get(name, ref string) ([]byte, error) {
	if v, ok := s.values[name]; ok {
		return v, nil
	}
	v, err := s.read(name, ref)
	if err != nil {
		return nil, fault.Op("secret "+name, err)
	}
	v = bytes.TrimSuffix(v, []byte("\n"))
	if len(v) == 0 {
		return nil, fault.New(fault.Invalid, "the secret %s is empty", name)
	}
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	s.values[name] = v
	return v, nil
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
		return io.ReadAll(io.LimitReader(f, maxSecret))
	case "command":
		return conn.Output(context.Background(), local.Conn{}, strings.Fields(rest)...)
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
