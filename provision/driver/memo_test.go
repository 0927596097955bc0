package driver

import (
	"errors"
	"testing"
)

func TestRemember(t *testing.T) {
	asked, fails := 0, true
	ask := func() (string, error) {
		asked++
		if fails {
			return "", errors.New("no")
		}
		return "1.2", nil
	}
	var m Memo
	if _, err := Remember(&m, "v", ask); err == nil {
		t.Error("no error")
	}
	fails = false
	for range 2 {
		if v, err := Remember(&m, "v", ask); v != "1.2" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2: an error is not remembered, an answer is", asked)
	}
	if n, err := Remember(&m, "v", func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("the same key for another kind of answer: %d, %v", n, err)
	}
	for range 2 {
		if _, err := Remember(nil, "v", ask); err != nil {
			t.Error(err)
		}
	}
	if asked != 4 {
		t.Errorf("asked %d times; without a memo it always asks", asked)
	}
}
