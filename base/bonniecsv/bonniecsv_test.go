package bonniecsv

import "testing"

// What was too fast to be measured is 0, which no test measures.
func TestFigures(t *testing.T) {
	for text, want := range map[string]float64{"+++++": 0, "+++": 0, "": 0, "0": 0, "12.5": 12.5} {
		if v, err := Figure(text); err != nil || v != want {
			t.Errorf("%q is %g, %v", text, v, err)
		}
	}
	for text, want := range map[string]float64{"22us": 22e-6, "116ms": 0.116, "3s": 3} {
		if v, err := Duration(text); err != nil || v < want*0.999 || v > want*1.001 {
			t.Errorf("%q is %g s, %v", text, v, err)
		}
	}
	for _, text := range []string{"-1us", "x", "1m", "us"} {
		if v, err := Duration(text); err == nil {
			t.Errorf("%q is %g s", text, v)
		}
	}
}

// A percentage of 0 is a value: the test used less than half a percent.
func TestShares(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "99": 0.99, "100": 1} {
		if v, known, err := Share(text); err != nil || !known || v != want {
			t.Errorf("%q is %g, %v, %v", text, v, known, err)
		}
	}
	for _, text := range []string{"", "+++"} {
		if v, known, err := Share(text); err != nil || known {
			t.Errorf("%q is %g, %v, %v", text, v, known, err)
		}
	}
	if v, _, err := Share("-1"); err == nil {
		t.Errorf("-1 is %g", v)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("1.98,2.00a,m\n"), "22us")
	f.Fuzz(func(t *testing.T, out []byte, word string) {
		if row, err := Read(out); err == nil && len(row) != fields {
			t.Errorf("%d fields", len(row))
		}
		if v, err := Duration(word); err == nil && v < 0 {
			t.Errorf("%q is %g s", word, v)
		}
		if v, _, err := Share(word); err == nil && v < 0 {
			t.Errorf("%q is %g", word, v)
		}
		if v, err := Figure(word); err == nil && v < 0 {
			t.Errorf("%q is %g", word, v)
		}
	})
}
