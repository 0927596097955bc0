package nspawn

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

func TestDriver(t *testing.T) { drivertest.Run(t, Driver{}, drivertest.Options{}) }

// What is executed inside has the filter of system calls and the bounds on
// capabilities of the container, not those of whoever asked for it.
func TestFilter(t *testing.T) {
	for filter, want := range map[string]string{"on": "Seccomp:\t2\n", "off": "Seccomp:\t0\n"} {
		t.Run(filter, func(t *testing.T) {
			in := drivertest.Create(t, Driver{}, drivertest.Options{Options: param.Values{"filter": filter}, Name: filter})
			status, err := conn.Output(t.Context(), in, "cat", "/proc/self/status")
			if err != nil || !strings.Contains(string(status), want) {
				t.Errorf("want %q, %v: %s", want, err, status)
			}
			// CAP_SYS_MODULE is what systemd-nspawn(1) never gives.
			exit, err := in.Exec(t.Context(), conn.Command("sh", "-c",
				`b=$(sed -n 's/^CapBnd:.//p' /proc/self/status); test $((0x$b >> 16 & 1)) = 0`))
			if err != nil || !exit.OK() {
				t.Errorf("the bounds on capabilities are not the container's: %v, %v", exit, err)
			}
		})
	}
}

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
