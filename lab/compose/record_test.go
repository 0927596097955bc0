package compose

import (
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/plan"
)

// Each request stands for a lab file below testdata/record, which is valid and can be
// planned.
func TestRecord(t *testing.T) {
	cat := catalogue()
	for name, r := range map[string]RecordRequest{
		"one": {Line: []string{"bakeoff", "boot", "record", "microvm:debian:bookworm"},
			Envs: []string{"microvm:debian:bookworm"}, Boots: 5},
		"variants": {Envs: []string{"microvm:debian:bookworm", "firecracker:debian:bookworm"}, Boots: 3,
			CPUs: "2", Memory: "1GiB",
			Variants: []string{"Self Tests:append=cryptomgr.notests=0", "self-tests:boot-timeout=3m0s"},
			Options:  []string{"boot-timeout=2m0s"}, Answer: "http:80/", Argv: []string{"server", "-p 80"}},
		"instructions": {Envs: []string{"microvm:debian:bookworm"}, Boots: 2, Options: []string{"clock=instructions"},
			Variants: []string{"tests-off:append=cryptomgr.notests"}},
		"own": {Envs: []string{"microvm"}, Options: []string{"kernel=/k", "initrd=/i", "append=a=b"}, Boots: 1, Plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Record(r, cat)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "record", name+".yaml"), f.Text)
			lab, err := f.Load(cat)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plan.Expand(lab, cat, 1, "test"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// boot record refuses a variant that changes nothing, and prints the command line of every kernel.
func TestAVariantThatChangesNothingIsRefused(t *testing.T) {
	cat := catalogue()
	r := RecordRequest{Envs: []string{"microvm:debian:bookworm"}, Boots: 1}
	for text, want := range map[string]string{
		"a:append=cryptomgr.notests":             "has this value already: the command line of the kernel is",
		"a:append=quiet panic=-1":                "has this value already",
		"a:append=initcall_debug":                "has this value already",
		"a:append=cryptomgr-notests":             "",
		"a:append=cryptomgr.notests=0":           "",
		"a:append=quiet mitigations=off":         "",
		"a:clock=host":                           "clock is",
		"a:boot-timeout=3m0s":                    "",
		"selftests:append=cryptomgr.notests = 0": "",
	} {
		r.Variants = []string{text}
		_, err := Record(r, cat)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--variant") || !fault.Is(err, fault.Invalid)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	r.Variants = []string{"a:append=x", "a:append=y"}
	if _, err := Record(r, cat); err == nil || !strings.Contains(err.Error(), "already has the option append") {
		t.Errorf("an option of a variant twice: %v", err)
	}
	r.Variants = []string{"off:append=mitigations=off"}
	lines := r.CommandLines(cat)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "kernel command line of microvm: console=ttyS0 panic=-1 ") ||
		!strings.Contains(lines[0], " initcall_debug ") || !strings.Contains(lines[1], " mitigations=off initcall_debug ") {
		t.Errorf("%q", lines)
	}
}

// Kernels of other systems do not get the words that make Linux log what it calls.
func TestKernelsOfOtherSystemsGetNoWordsOfLinux(t *testing.T) {
	cat := catalogue()
	systemOf := func(kernel string) string {
		return map[string]string{"/netbsd": "netbsd", "/vmlinuz": "linux"}[kernel]
	}
	for options, want := range map[string]bool{
		"kernel=/netbsd append=root=ld0a disk=/d":                         false,
		"kernel=/vmlinuz append=root=ld0a disk=/d":                        true,
		"kernel=/unknown append=root=ld0a disk=/d":                        true,
		"kernel=/unknown append=root=ld0a initrd=/i guest-system=freebsd": false,
		"kernel=/netbsd append=root=ld0a guest-system=linux disk=/":       true,
		"disk=/d machine=q35":                                             false,
	} {
		r := RecordRequest{Envs: []string{"qemu"}, Options: strings.Fields(options), Boots: 1, SystemOf: systemOf}
		f, err := Record(r, cat)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(f.Text), "initcall_debug"); got != want {
			t.Errorf("%s: words of Linux %v, want %v\n%s", options, got, want, f.Text)
		}
		if lines := r.CommandLines(cat); !want && len(lines) > 0 && !strings.HasSuffix(lines[0], ": root=ld0a") {
			t.Errorf("%s: %q", options, lines)
		}
	}
}

func TestRecordMistakes(t *testing.T) {
	cat := catalogue()
	for says, r := range map[string]RecordRequest{
		"the command names no environment to boot": {},
		`argument "microvm" has no image`:          {Envs: []string{"microvm"}},
		"--option kernel: an option needs a value": {Envs: []string{"microvm"}, Options: []string{"kernel"}},
		`--variant "x" needs a name and an option`: {Envs: []string{"host"}, Variants: []string{"x"}},
		`--variant y: an option needs a value`:     {Envs: []string{"host"}, Variants: []string{"x:y"}},
		"is the same environment as":               {Envs: []string{"host", "host"}},
		`there is no driver "no-such"`:             {Envs: []string{"no-such"}},
	} {
		r.Boots = 1
		_, err := Record(r, cat)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, ""),
			strings.ReplaceAll(says, `"`, "")) {
			t.Errorf("%s: %v", says, err)
		}
	}
	// A wrong option is named as it was typed.
	r := RecordRequest{Envs: []string{"microvm:debian:bookworm"}, Options: []string{"machin=q35"}, Boots: 1}
	f, err := Record(r, cat)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(cat); err == nil || !strings.Contains(err.Error(), "--option") {
		t.Errorf("got %v", err)
	}
}
