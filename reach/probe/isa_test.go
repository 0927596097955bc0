package probe

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// leaves is a processor with these registers.
func leaves(of map[[2]uint32]registers) func(leaf, sub uint32) registers {
	return func(leaf, sub uint32) registers { return of[[2]uint32{leaf, sub}] }
}

func TestFlagsByCPUID(t *testing.T) {
	processor := func(change func(map[[2]uint32]registers)) string {
		of := map[[2]uint32]registers{{0, 0}: {a: 0xd}, {1, 0}: {a: 0x806f8, b: 0x1020800, c: 0x7, d: 0x3},
			{7, 0}: {a: 1, b: 0x20, c: 0x2, d: 0x4}, {7, 1}: {a: 0x10}, {0xd, 1}: {a: 1},
			{0x80000000, 0}: {a: 0x80000008}, {0x80000001, 0}: {c: 1, d: 1 << 11}}
		if change != nil {
			change(of)
		}
		return cpuidFlags(leaves(of))
	}
	same := processor(nil)
	if !strings.HasSuffix(same, " (12 flags by CPUID)") {
		t.Errorf("%q", same)
	}
	for name, tt := range map[string]struct {
		leaf [2]uint32
		to   registers
		same bool
	}{
		"another CPU of the same machine": {[2]uint32{1, 0}, registers{a: 0x806f8, b: 0x3020800, c: 0x7, d: 0x3}, true},
		"a system that saves states":      {[2]uint32{1, 0}, registers{a: 0x806f8, c: 0x7 | osxsave, d: 0x3}, true},
		"a system that uses keys":         {[2]uint32{7, 0}, registers{a: 1, b: 0x20, c: 0x2 | ospke, d: 0x4}, true},
		"a feature more":                  {[2]uint32{7, 0}, registers{a: 1, b: 0x60, c: 0x2, d: 0x4}, false},
		"a feature in another word":       {[2]uint32{7, 0}, registers{a: 1, b: 0x4, c: 0x2, d: 0x20}, false},
		"no second list":                  {[2]uint32{7, 0}, registers{b: 0x20, c: 0x2, d: 0x4}, false},
		"no extended list":                {[2]uint32{0x80000000, 0}, registers{a: 0x20000000}, false},
		"an old processor":                {[2]uint32{0, 0}, registers{a: 1}, false},
	} {
		if got := processor(func(of map[[2]uint32]registers) { of[tt.leaf] = tt.to }); (got == same) != tt.same {
			t.Errorf("%s: %q and %q", name, got, same)
		}
	}
	if got := cpuidFlags(leaves(nil)); got != "" {
		t.Errorf("a processor without lists: %q", got)
	}
}

// The registers of this processor are those that its kernel shows.
func TestFlagsOfThisProcessor(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		if got := processorFlags(); got != "" {
			t.Errorf("%q", got)
		}
		return
	}
	if first := processorFlags(); first == "" || first != processorFlags() {
		t.Errorf("%q, then %q", first, processorFlags())
	}
}

func TestFeatures(t *testing.T) {
	set := struct {
		_       [8]byte
		HasSSE2 bool
		HasAVX  bool
		HasAVX2 bool
		IsFast  bool
		Length  int
		Other   bool
	}{HasSSE2: true, HasAVX2: true, IsFast: true, Length: 3, Other: true}
	if got := features(set); got != "avx2 fast sse2" {
		t.Errorf("%q", got)
	}
}

// The child prints what Go's runtime uses under its own GODEBUG.
func TestGoInstructionsChild(t *testing.T) {
	if os.Getenv("PROBE_TEST_ISA") != "" {
		os.Stdout.WriteString("isa: " + goInstructions() + "\n")
	}
}

// A set that GODEBUG switches off is not in use.
func TestGoInstructionsObeyTheEnvironment(t *testing.T) {
	in := strings.Fields(goInstructions())
	if runtime.GOARCH != "amd64" || !slices.Contains(in, "sse42") {
		t.Skip("needs an amd64 processor with SSE 4.2")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestGoInstructionsChild$")
	child.Env = append(os.Environ(), "PROBE_TEST_ISA=1", "GODEBUG=cpu.sse42=off")
	out, err := child.Output()
	line, _, _ := strings.Cut(string(out), "\n")
	want := slices.DeleteFunc(slices.Clone(in), func(s string) bool { return s == "sse42" })
	if err != nil || line != "isa: "+strings.Join(want, " ") {
		t.Errorf("%q, %v; want %q", line, err, want)
	}
}

func TestSettingsOfOpenSSL(t *testing.T) {
	for text, want := range map[string]string{
		"OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab\n": "OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab",
		"OPENSSL_ia32cap=0x7ffaf3ffffebffff:0x27ab env:~0x1\n":  "OPENSSL_ia32cap=0x7ffaf3ffffebffff:0x27ab env:~0x1",
		"WARNING: no configuration\nOPENSSL_armcap=0xbd\n":      "OPENSSL_armcap=0xbd",
		"openssl:Error: 'info' is an invalid command.\n":        "",
		"OPENSSL_ia32cap=\n": "",
		"OPENSSL_x is = 1":   "",
		"":                   "",
	} {
		if got := parseCPUSettings(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzInstructions(f *testing.F) {
	f.Add("OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab\n", uint32(0xd), uint32(7))
	f.Add("error", uint32(0), uint32(1<<31))
	f.Fuzz(func(t *testing.T, text string, a, b uint32) {
		if got := parseCPUSettings(text); got != "" && (!strings.HasPrefix(got, "OPENSSL_") || strings.Contains(got, "\n")) {
			t.Errorf("%q", got)
		}
		all := func(uint32, uint32) registers { return registers{a, b, a ^ b, a + b} }
		if got := cpuidFlags(all); (got == "") != (a < 1) {
			t.Errorf("%d: %q", a, got)
		}
	})
}
