package gunzip

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(data []byte) (string, error) {
	r, err := NewReader(bufio.NewReader(bytes.NewReader(data)))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

func TestPartsAndPadding(t *testing.T) {
	a, b := packed(t, "first "), packed(t, "second")
	padding := make([]byte, 700)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"one part":      {a, "first "},
		"two parts":     {bytes.Join([][]byte{a, b}, nil), "first second"},
		"padding":       {bytes.Join([][]byte{a, padding}, nil), "first "},
		"padding twice": {bytes.Join([][]byte{a, padding, b, padding}, nil), "first second"},
		"an empty part": {bytes.Join([][]byte{packed(t, ""), b}, nil), "second"},
		"a long part":   {packed(t, strings.Repeat("x", 1<<20)), strings.Repeat("x", 1<<20)},
	} {
		if got, err := read(c.data); err != nil || got != c.want {
			t.Errorf("%s: %.20q, %v", name, got, err)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	a := packed(t, "first ")
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"cut off":         {a[:len(a)-5], io.ErrUnexpectedEOF},
		"text after it":   {append(bytes.Clone(a), "text"...), io.ErrUnexpectedEOF},
		"cut off in part": {append(bytes.Clone(a), a[:12]...), io.ErrUnexpectedEOF},
		"a wrong sum":     {append(bytes.Clone(a[:len(a)-1]), 1), gzip.ErrChecksum},
		"no gzip":         {[]byte("a text that gzip did not write"), gzip.ErrHeader},
	} {
		if _, err := read(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
