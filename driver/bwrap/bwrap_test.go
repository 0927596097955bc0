package bwrap

import (
	"testing"

	"bakeoff/driver/drivertest"
)

func TestDriver(t *testing.T) { drivertest.Run(t, Driver{}, drivertest.Options{}) }

func FuzzChildPID(f *testing.F) {
	f.Add([]byte("{\n    \"child-pid\": 1093\n}\n"))
	f.Add([]byte(`{"child-pid": 77, "cgroup-namespace": 4026531835}`))
	f.Add([]byte(`{"child-pid": -1}`))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, out []byte) {
		if pid, err := childPID(out); err == nil && pid < 1 {
			t.Errorf("process %d", pid)
		}
	})
}

func TestChildPID(t *testing.T) {
	if pid, err := childPID([]byte("{\n    \"child-pid\": 1093\n}\n")); pid != 1093 || err != nil {
		t.Errorf("%d, %v", pid, err)
	}
	if _, err := childPID([]byte("bwrap: hello\n")); err == nil {
		t.Error("no JSON was taken for some")
	}
}

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, Driver{}, drivertest.Options{}) }
