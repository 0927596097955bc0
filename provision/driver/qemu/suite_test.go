//go:build linux

package qemu

import (
	"os"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/guest/qemu"
)

// suite runs the drivers' contract. An emulated guest boots in some seconds,
// and the suite makes a score of them.
func runSuite(t *testing.T, machine string) {
	var img driver.Image
	if !testing.Short() {
		_, img = bench(t)
	}
	drivertest.Run(t, New(), drivertest.Options{Name: machine, Image: img, Memory: 256 * unit.MiB,
		Timeout:  5 * time.Minute,
		Transfer: 1 << 20, Options: param.Values{optMachine: machine, optBootTimeout: "3m0s"}})
}

func TestSuiteMicroVM(t *testing.T) {
	t.Parallel() // an emulated machine keeps one CPU busy
	runSuite(t, qemu.MicroVM)
}

func TestSuiteQ35(t *testing.T) {
	if !testing.Short() && os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("takes some minutes under emulation, and microvm has shown most of it: set BAKEOFF_TEST_LONG=1")
	}
	runSuite(t, qemu.Q35)
}
