package initramfs

import (
	"bytes"
	"debug/elf"
	"io"
	"testing"

	"github.com/cavaliergopher/cpio"
)

// The code addresses its data relative to itself, so their places are fixed.
func TestClockProgram(t *testing.T) {
	if len(clockCode) != 0xeb {
		t.Fatalf("the code has %#x bytes: the addresses in it are wrong", len(clockCode))
	}
	f, err := elf.NewFile(bytes.NewReader(clockProgram(clockExec, "/sbin/init")))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Progs) != 1 || f.Progs[0].Type != elf.PT_LOAD || f.Progs[0].Flags != elf.PF_R|elf.PF_X {
		t.Fatalf("segments %v", f.Progs)
	}
	p := f.Progs[0]
	data, err := io.ReadAll(p.Open())
	if err != nil {
		t.Fatal(err)
	}
	code := data[f.Entry-p.Vaddr:]
	if !bytes.HasPrefix(code, []byte{0x0f, 0x31}) {
		t.Errorf("the first instruction is % x, not rdtsc", code[:2])
	}
	if got := string(code[0xeb:]); got != "\x00userland\x00/sbin/init\x00" {
		t.Errorf("the data is %q", got)
	}
}

func TestClockArchive(t *testing.T) {
	for next, then := range map[string]byte{"/init": clockExec, "": clockRestart} {
		var b bytes.Buffer
		a := New(&b)
		if err := a.Clock(next); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if b.Len()%4 != 0 {
			t.Errorf("%d bytes: what follows would not be aligned", b.Len())
		}
		modes := map[string]byte{}
		r := cpio.NewReader(&b)
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(r); err == nil && h.Mode.IsRegular() {
				modes["/"+h.Name] = data[64+56+0xeb]
			}
		}
		if len(modes) != 2 || modes[First] != then || modes[Mark] != clockExit {
			t.Errorf("%q: the programs do %v then", next, modes)
		}
	}
}
