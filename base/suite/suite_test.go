package suite_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"bakeoff/base/suite"
)

// What go test would say, the runner says too.
func TestOutcomes(t *testing.T) {
	var order []string
	var dir string
	heard := 0
	out := suite.Run(t.Context(), "all", func(t suite.T) {
		t.Cleanup(func() { order = append(order, "outer") })
		dir = t.TempDir()
		if !t.Run("fine", func(t suite.T) {
			t.Cleanup(func() { order = append(order, "first") })
			t.Cleanup(func() {
				order = append(order, "second")
				if t.Context().Err() == nil {
					t.Error("the context outlives its test")
				}
			})
			t.Logf("a %s", "line")
		}) {
			t.Error("fine did not go well")
		}
		t.Run("left out", func(t suite.T) { t.Skip("needs", "a moon"); panic("not reached") })
		if t.Run("bad one", func(t suite.T) { t.Run("deep", func(t suite.T) { t.Fatalf("%d", 7) }) }) {
			t.Error("bad one went well")
		}
		t.Run("worse", func(t suite.T) { panic("oh") })
		t.Run("in cleanup", func(t suite.T) { t.Cleanup(func() { t.Fatal("late") }) })
		t.Run("failed, then skipped", func(t suite.T) { t.Error("x"); t.Skip("y") })
		t.Run("long", func(t suite.T) { t.Log(strings.Repeat("x", 1<<20)); t.Log("more") })
	}, func(suite.Outcome) { heard++ })
	var got []string
	for _, o := range out {
		got = append(got, fmt.Sprintf("%s %s", o.Name, o.Status))
	}
	want := "all/fine passed, all/left_out skipped, all/bad_one/deep failed, all/bad_one failed, all/worse failed, " +
		"all/in_cleanup failed, all/failed,_then_skipped failed, all/long passed, all failed"
	if s := strings.Join(got, ", "); s != want || heard != len(out) {
		t.Errorf("heard %d\ngot  %s\nwant %s", heard, s, want)
	}
	if s := strings.Join(order, " "); s != "second first outer" {
		t.Errorf("cleanups ran as %s", s)
	}
	if _, err := os.Stat(dir); dir == "" || !os.IsNotExist(err) {
		t.Errorf("%q stays", dir)
	}
	if said := out[0].Said; len(said) != 1 || said[0] != "a line" {
		t.Errorf("said %q", said)
	}
	if said := out[7].Said; len(said) != 1 || len(said[0]) > 17<<10 {
		t.Errorf("a long line is not bounded: %d lines", len(said))
	}
}

// Under go test the same suite is go test's.
func TestUnder(t *testing.T) {
	ran := false
	u := suite.Under(t)
	ok := u.Run("inner", func(u suite.T) {
		ran = u.Name() == "TestUnder/inner" && u.Context().Err() == nil && u.Short() == testing.Short()
	})
	if !ok || !ran {
		t.Error("it did not run as a test of go test")
	}
	if context.Cause(u.Context()) != nil {
		t.Error("the context has ended")
	}
}
