package trial

import (
	"testing"

	"bakeoff/driver"
)

// A contender that asks for more CPUs than there are is refused, and what the
// driver said against it is said first.
func TestEnoughCPUs(t *testing.T) {
	ok := driver.Availability{OK: true, Facts: map[string]string{"version": "1"}}
	if got := Enough(ok, 2, 2); !got.OK {
		t.Errorf("two of two CPUs are refused: %s", sentence(got))
	}
	if got := Enough(ok, 3, 2); got.OK || sentence(got) != "it asks for 3 CPUs, and its host has 2; write cpus: 2 or less" {
		t.Errorf("three of two CPUs: %+v", got)
	}
	if got := Enough(driver.Availability{Reason: "crun is not installed"}, 3, 2); sentence(got) != "crun is not installed" {
		t.Errorf("what is not installed: %+v", got)
	}
}
