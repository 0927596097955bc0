package calibration

import (
	"testing"

	"bakeoff/judge/calibrate"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	hostdriver "bakeoff/provision/driver/host"
)

func TestCalibrationLab(t *testing.T) {
	for _, d := range []Design{Quick, Thorough} {
		lab, err := manifest.Parse("calibrate", []byte(d.lab()), session.Catalogue(), "")
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Expand(lab, session.Catalogue(), 1, "test")
		if err != nil {
			t.Fatal(err)
		}
		if p.Baseline != "base" || len(p.Contenders) != len(d.contenders)+2 || len(p.Family) != 2*len(d.contenders) ||
			p.Design.Budget != d.budget {
			t.Errorf("baseline %s, %d contenders, %d primary comparisons, %v", p.Baseline, len(p.Contenders), len(p.Family),
				p.Design.Budget)
		}
		for _, look := range d.looks {
			if look%calibrate.Window != 0 {
				t.Errorf("a look at %d blocks leaves part of a window of %d", look, calibrate.Window)
			}
		}
	}
	found := 0
	for _, d := range drivers() {
		if _, ok := d.(slowHost); ok {
			found++
		}
		if _, ok := d.(hostdriver.Driver); ok {
			t.Error("the plain host driver is still there")
		}
	}
	if found != 1 {
		t.Errorf("%d drivers add work, want that of the host", found)
	}
}
