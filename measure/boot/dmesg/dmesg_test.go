package dmesg

import (
	"testing"

	"bakeoff/measure/boot/boottest"
)

func TestDmesg(t *testing.T) { boottest.Run(t, New()) }

func TestMistakes(t *testing.T) {
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":    "\n\n",
		"x:1: no line begins with":  "hello\n",
		"x:3: the clock starts":     "[    9.000000] a\n\n[    0.000000] b\n",
		"x:1: the times are whole":  "[Fri Nov 27 06:50:23 2026] Linux version 6.12\n",
		"x:1: no line begins with ": "[1234567890.000000] too large\n",
	})
}

func TestSpansRunFromLineToLine(t *testing.T) {
	r, err := New().Read("x", []byte("<6>[    0.000000][    T0] Linux version 6\nfirmware\n[    0.000000] a: b\n"+
		"kern  :info  : [    0.500000] c\n[    0.400000] d: e: f\n[    2.000000] Run /init as init process\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Spans) != 2 || r.Spans[0].Label() != "a b" || r.Spans[0].End != 500000 || r.Spans[1].Label() != "d e: f" ||
		r.Spans[1].Start != 500000 || r.Spans[1].End != 2000000 {
		t.Errorf("spans %+v", r.Spans)
	}
	if r.System != "linux" || len(r.Marks) != 2 || r.Marks[1].At != 2000000 || len(r.Notes) != 2 {
		t.Errorf("system %q, marks %+v, notes %v", r.System, r.Marks, r.Notes)
	}
}

func FuzzDmesg(f *testing.F) {
	boottest.Fuzz(f, New(), "[1.234567] a\n[1.234568][T12] b: c\n", "<5>[    1.5] a\n")
}
