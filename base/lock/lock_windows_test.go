package lock

import "testing"

func TestOfMachineOnWindows(t *testing.T) {
	for _, c := range []struct{ data, lock, want string }{
		{`C:\ProgramData`, "", `C:\ProgramData\bakeoff.lock`},
		{`C:\ProgramData`, `D:\else`, `D:\else`},
		{"relative", "", ""},
		{"", "", ""},
	} {
		getenv := func(name string) string {
			return map[string]string{"ProgramData": c.data, "BAKEOFF_LOCK": c.lock}[name]
		}
		if got := OfMachine(getenv, -1); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
