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
	if p := percent(); p != 4*usualPercent {
		t.Fatalf("GOGC is %d before the first collection", p)
	}
	runtime.GC()
	for end := time.Now().Add(time.Minute); percent() != usualPercent; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("GOGC is still %d", percent())
		}
	}
}

// percent reads GOGC without changing it.
func percent() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func TestAValueOfTheUserStays(t *testing.T) {
	old := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	delay()
	runtime.GC()
	if p := percent(); p != 50 {
		t.Errorf("GOGC is %d, want 50", p)
	}
}
