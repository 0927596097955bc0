package nspawn

import (
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/reach/conn/local"
)

func TestDriver(t *testing.T) { drivertest.Run(t, Driver{}, drivertest.Options{}) }
func TestFilter(t *testing.T) { drivertest.Filter(t, Driver{}) }

func TestRefuses(t *testing.T) {
	if _, err := (Driver{}).Create(t.Context(), local.Conn{},
		driver.Spec{Options: param.Values{"filter": "some"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a filter that does not exist: %v", err)
	}
	if _, err := remains(t.Context(), local.Conn{}, driver.Leftover{Label: "../x"}, true); !fault.Is(err, fault.Invalid) {
		t.Errorf("a label that leads elsewhere: %v", err)
	}
}

func TestEscape(t *testing.T) {
	if got := escape(`/a:b\c`); got != `/a\:b\\c` {
		t.Error(got)
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, filter := range []string{"on", "off"} {
		b.Run("filter="+filter, func(b *testing.B) {
			drivertest.Bench(b, Driver{}, drivertest.Options{Options: param.Values{"filter": filter}, Name: filter})
		})
	}
}
