//go:build linux

package qemu

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/initramfs"
)

// counts boots a guest on the instruction clock and returns its reports.
func counts(t *testing.T, options param.Values, change func(*driver.Spec)) []driver.Count {
	t.Helper()
	with := param.Values{optClock: clockInstructions, optBootTimeout: "4m0s"}
	for k, v := range options {
		with[k] = v
	}
	spec := specOf(t, with)
	if change != nil {
		change(&spec)
	}
	in, err := New().Create(t.Context(), local.Conn{}, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	facts := in.Info().Facts
	if facts[driver.FactClock] != clockInstructions || facts[driver.FactAccelerator] != qemu.TCG {
		t.Errorf("facts %v", facts)
	}
	return in.(driver.Counted).Counts()
}

// quickly leaves out most of what takes long in a boot.
const quickly = "cryptomgr.notests quiet"

// Boots agree to the instruction, also while something else uses the CPUs.
func TestBootsAgreeToTheInstruction(t *testing.T) {
	for _, machine := range []string{qemu.MicroVM, qemu.Q35} {
		t.Run(machine, func(t *testing.T) {
			if machine == qemu.Q35 && os.Getenv("BAKEOFF_TEST_LONG") == "" {
				t.Skip("takes long under emulation: set BAKEOFF_TEST_LONG=1")
			}
			options := param.Values{optMachine: machine, optAppend: quickly}
			first := counts(t, options, nil)
			stop := bootdisk.Hog(t, runtime.NumCPU()-1)
			busy := counts(t, options, func(s *driver.Spec) { s.CPUSet = []int{runtime.NumCPU() - 1} })
			stop()
			if !reflect.DeepEqual(first, busy) || len(first) != 1 || first[0].Name != initramfs.ClockUserland {
				t.Errorf("got %v and, on a busy CPU, %v", first, busy)
			}
			t.Log(first)
		})
	}
}

// burning is a RAM disk whose init executes 2n instructions and then reports "burnt".
func burning(t *testing.T, n uint64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(file, bootdisk.Burn(n), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The instructions of a program in the guest are counted: those that it executes, and what
// the timer interrupt adds.
func TestInstructionsOfAProgram(t *testing.T) {
	t.Parallel() // other machines on the CPU change no count
	var ends [2]int64
	burns := [2]uint64{1, 25_000_000}
	for i, n := range burns {
		file := burning(t, n)
		options := param.Values{optAppend: quickly, optInitrd: file, optReady: "mark:" + bootdisk.Burnt}
		got := counts(t, options, func(s *driver.Spec) {
			s.Options[optKernel], s.Image = s.Image.Kernel, driver.Image{}
		})
		if len(got) != 2 || got[0].Name != initramfs.ClockUserland || got[1].Name != bootdisk.Burnt {
			t.Fatalf("got %v", got)
		}
		ends[i] = got[1].At - got[0].At
	}
	want := int64(2 * (burns[1] - burns[0]))
	if got := ends[1] - ends[0]; got < want || got > want+want/100 {
		t.Errorf("%d instructions more, of which %d were burnt", got, want)
	}
}

// A guest that ends before its report is the subject's failure, with the end of its
// console.
func TestInstructionsOfAGuestThatPanics(t *testing.T) {
	spec := parallel(t, param.Values{optClock: clockInstructions, optAppend: quickly, optReady: "mark:never",
		optInitrd: burning(t, 1), optBootTimeout: "4m0s"})
	spec.Options[optKernel], spec.Image = spec.Image.Kernel, driver.Image{}
	err := failing(t, spec)
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "the guest's kernel panicked: Attempted "+
		"to kill init!") {
		t.Errorf("got %v", err)
	}
}
