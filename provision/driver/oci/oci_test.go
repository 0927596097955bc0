package oci

import (
	"testing"

	"bakeoff/base/param"
	"bakeoff/provision/driver/drivertest"
)

func TestCrun(t *testing.T) {
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "crun"}, Name: "crun"})
}

func TestRunc(t *testing.T) {
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "runc"}, Name: "runc"})
}

func BenchmarkCreate(b *testing.B) {
	for _, runtime := range []string{"crun", "runc"} {
		b.Run(runtime, func(b *testing.B) {
			drivertest.Bench(b, Driver{}, drivertest.Options{Options: param.Values{"runtime": runtime}, Name: runtime})
		})
	}
}
