package spawn

import (
	"os"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/probe"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{Common: param.Values{"time": "100ms"}})
}

// Each unit is a process, as the kernel counts it.
func TestSpawnsAreForks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := probe.ReadHost(nil)
	if err := spawnPrograms(self, 20); err != nil {
		t.Fatal(err)
	}
	forks := probe.ReadHost(nil).Since(before).Forks
	if forks == nil {
		t.Skip("this system does not count forks")
	}
	if *forks < 20 {
		t.Errorf("20 programs were %g forks", *forks)
	}
}

func TestAnotherProgramIsNoticed(t *testing.T) {
	if err := spawnPrograms("/bin/true", 1); !fault.Is(err, fault.Subject) {
		t.Errorf("a program that ends with 0 is taken for the agent: %v", err)
	}
	if err := spawnPrograms("/does/not/exist", 1); err == nil {
		t.Error("a missing program gives no error")
	}
}
