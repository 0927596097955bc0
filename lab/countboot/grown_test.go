package countboot

import (
	"fmt"
	"reflect"
	"testing"

	"bakeoff/provision/driver"
)

// printed is a boot whose console has an initcall a, of this many microseconds, and b.
func printed(micros int) Boot {
	at := 100000
	text := ""
	line := func(format string, args ...any) {
		text += fmt.Sprintf("[%5d.%06d] ", at/1000000, at%1000000) + fmt.Sprintf(format, args...) + "\n"
	}
	line("Linux version 6.1.0 (x@y) #1")
	for name, took := range map[string]int{"a_init": micros} {
		line("calling  %s+0x0/0x10 @ 1", name)
		at += took
		line("initcall %s+0x0/0x10 returned 0 after %d usecs", name, took)
	}
	line("calling  b_init+0x0/0x10 @ 1")
	at += 500
	line("initcall b_init+0x0/0x10 returned 0 after 500 usecs")
	line("Run /init as init process")
	return Boot{Console: []byte(text)}
}

func TestGrown(t *testing.T) {
	got, err := Grown(printed(1000), printed(3500), 1000)
	want := []Span{{Path: "kernel;a_init", Before: 1_000_000, After: 3_500_000}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = Grown(printed(1000), printed(1000), 1); err != nil || len(got) != 0 {
		t.Errorf("equal boots: %+v, %v", got, err)
	}
	if _, err = Grown(printed(1000), Boot{}, 1); err == nil {
		t.Error("an empty console was read")
	}
}

func TestParts(t *testing.T) {
	a := Boot{Counts: []driver.Count{{Name: "userland", At: 100}, {Name: "up", At: 150, Program: "/init"}}}
	b := Boot{Counts: []driver.Count{{Name: "userland", At: 120}, {Name: "extra", At: 130},
		{Name: "up", At: 190, Program: "/init"}}}
	want := []Part{{"userland", "", 100, 120}, {"up", "/init", 50, 70}}
	if got := Parts(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
