package binary

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// program makes an ELF file for a processor: the headers of a static program, or with
// the path of an interpreter.
func program(machine uint16, interpreter string) []byte {
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	n := uint16(0)
	if interpreter != "" {
		n = 1
	}
	le([]uint16{2, machine})
	le(uint32(1))
	le([]uint64{0x400000, 64, 0})
	le(uint32(0))
	le([]uint16{64, 56, n, 0, 0, 0})
	if n == 1 {
		le([]uint32{3, 4})
		le([]uint64{120, 0, 0, uint64(len(interpreter) + 1), uint64(len(interpreter) + 1), 1})
		b.WriteString(interpreter + "\x00")
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want Program
	}{
		"static": {program(62, ""), Program{System: "linux", Arch: "amd64"}},
		"interpreter": {program(183, "/lib/ld-musl-aarch64.so.1"),
			Program{System: "linux", Arch: "arm64", Interpreter: "/lib/ld-musl-aarch64.so.1"}},
		"other":      {program(8, ""), Program{System: "linux"}},
		"script":     {[]byte("#! /usr/bin/env python3\nprint()"), Program{Script: true, Interpreter: "/usr/bin/env"}},
		"empty line": {[]byte("#!\n"), Program{}},
		"text":       {[]byte("hello"), Program{}},
		"empty":      {nil, Program{}},
		"macOS":      {[]byte("\xcf\xfa\xed\xfe........"), Program{System: "darwin"}},
		"Windows":    {append([]byte("MZ"), make([]byte, 100)...), Program{System: "windows"}},
	} {
		got, err := Read(bytes.NewReader(c.file))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	if _, err := Read(bytes.NewReader(program(62, "/lib/ld.so")[:40])); err == nil {
		t.Error("a program that is cut off has no error")
	}
}

// A program of the machine names its loader and the library of C.
func TestReadAProgramOfThisMachine(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("needs /bin/sh of Linux")
	}
	if out, err := exec.Command("ldd", sh).CombinedOutput(); err != nil || !strings.Contains(string(out), "libc.so.6") {
		t.Skip("/bin/sh does not use libc.so.6")
	}
	f, err := os.Open(sh)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := Read(f)
	if err != nil || p.Arch != runtime.GOARCH || !strings.Contains(p.Interpreter, "/ld-") ||
		!slices.Contains(p.Needed, "libc.so.6") {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(program(62, ""))
	f.Add(program(183, "/lib/ld-musl-aarch64.so.1"))
	f.Add([]byte("#!/bin/sh\n"))
	if exe, err := os.ReadFile("/bin/true"); err == nil && len(exe) < 1<<17 {
		f.Add(exe)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := Read(bytes.NewReader(file))
		if err != nil && !reflect.DeepEqual(p, Program{}) {
			t.Errorf("an error and %+v", p)
		}
		if len(p.Needed) > maxNeeded || len(p.Interpreter) > maxLine {
			t.Errorf("%d libraries, interpreter of %d bytes", len(p.Needed), len(p.Interpreter))
		}
	})
}
