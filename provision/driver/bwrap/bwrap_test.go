package bwrap

import (
	"testing"

	"bakeoff/provision/driver/drivertest"
)

func TestDriver(t *testing.T) { drivertest.Run(t, Driver{}, drivertest.Options{}) }

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, Driver{}, drivertest.Options{}) }
