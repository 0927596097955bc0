package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestProgramDoesNotLinkTesting fails when package testing, and with it the
// flags of go test, gets into the program: doctor --prove runs the drivers'
// contract suites, which must not need it.
func TestProgramDoesNotLinkTesting(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "bakeoff/base/suite") {
		t.Fatal("go list -deps does not list base/suite: it was asked for something else")
	}
	if slices.Contains(deps, "testing") {
		t.Error(`the program links "testing": go list -deps -json ./cmd/bakeoff shows which package imports it`)
	}
}
