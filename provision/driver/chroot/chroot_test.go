package chroot_test

import (
	"testing"

	"bakeoff/provision/driver/chroot"
	"bakeoff/provision/driver/drivertest"
)

func TestDriver(t *testing.T) { drivertest.Run(t, chroot.Driver{}, drivertest.Options{}) }

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, chroot.Driver{}, drivertest.Options{}) }
