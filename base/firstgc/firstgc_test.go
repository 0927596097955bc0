package firstgc

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestTheFirstCollectionRestoresTheUsualRules(t *testing.T) {
	old := debug.SetGCPercent(usualPercent)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	delay()
	if p := gogc(); p != 4*usualPercent {
		t.Fatalf("GOGC is %d before the first collection", p)
	}
	becomes(t, usualPercent)
	Then(300)
	becomes(t, 300)
}

func TestAnotherValueAfterTheFirstCollection(t *testing.T) {
	old := debug.SetGCPercent(usualPercent)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	delay()
	Then(200)
	if p := gogc(); p != 4*usualPercent {
		t.Fatalf("GOGC is %d before the first collection", p)
	}
	becomes(t, 200)
}

// becomes collects, and waits until GOGC has a value.
func becomes(t *testing.T, want uint64) {
	t.Helper()
	runtime.GC()
	for end := time.Now().Add(time.Minute); gogc() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("GOGC is still %d, not %d", gogc(), want)
		}
	}
}

// gogc reads GOGC without changing it.
func gogc() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func TestAValueOfTheUserStays(t *testing.T) {
	old := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	delay()
	runtime.GC()
	Then(200)
	if p := gogc(); p != 50 {
		t.Errorf("GOGC is %d, want 50", p)
	}
}
