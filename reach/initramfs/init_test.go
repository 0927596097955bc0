package initramfs

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// program is an ELF file of Linux with one program header.
func program(t *testing.T, kind elf.ProgType) string {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64,
		Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var b bytes.Buffer
	for _, part := range []any{h, elf.Prog64{Type: uint32(kind)}} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return file(t, b.Bytes())
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A program that needs a loader would only be missed by the kernel of the guest.
func TestInitMustBeStatic(t *testing.T) {
	var out bytes.Buffer
	a := New(&out)
	if err := a.Init(program(t, elf.PT_LOAD)); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil || !strings.Contains(out.String(), "init\x00") {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	for name, says := range map[string]string{program(t, elf.PT_INTERP): "dynamically linked",
		file(t, []byte("#!/bin/sh\n")): "not a program for a Linux guest"} {
		if err := CheckInit(name); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", says, err)
		}
		if err := New(&out).Init(name); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
