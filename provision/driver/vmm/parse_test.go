package vmm

import "testing"

const list = `   ID   PID VCPUS  MAXMEM  CURMEM     TTY        OWNER    STATE NAME
    3 12345     1    128M    120M   ttyp1         root  running bakeoff-a
    4     -     1    128M       -       -         root  stopped bakeoff-ab
`

func TestParse(t *testing.T) {
	if r, err := parse(list, "bakeoff-a"); err != nil || r == nil || r.id != 3 || !r.running {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := parse(list, "bakeoff-ab"); err != nil || r == nil || r.running {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := parse(list, "bakeoff"); err != nil || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(list)
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := parse(s, "bakeoff-a"); err == nil && r != nil && (r.id < 1 || r.id > 255) {
			t.Error("a number that no address has")
		}
	})
}
