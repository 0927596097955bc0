package host_test

import (
	"testing"

	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/host"
)

func TestDriver(t *testing.T) { drivertest.Run(t, host.Driver{}, drivertest.Options{}) }

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, host.Driver{}, drivertest.Options{}) }
