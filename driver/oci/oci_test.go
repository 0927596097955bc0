package oci

import (
	"testing"

	"bakeoff/driver/drivertest"
	"bakeoff/param"
)

func TestCrun(t *testing.T) {
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "crun"}, Name: "crun"})
}

func TestRunc(t *testing.T) {
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "runc"}, Name: "runc"})
}
