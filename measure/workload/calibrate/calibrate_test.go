package calibrate

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "100ms"},
		Cells:  []param.Values{{}},
	})
}

func TestExtraIsRead(t *testing.T) {
	dir := t.TempDir()
	file, own := filepath.Join(dir, Extra), filepath.Join(dir, "own")
	if n, err := addedRounds(""); n != 0 || err != nil {
		t.Errorf("without a directory %d, %v", n, err)
	}
	if n, err := addedRounds(own); n != 0 || err != nil {
		t.Errorf("without the file %d, %v", n, err)
	}
	for text, want := range map[string]int{"5": 5, "10\n": 10, "0": 0, "1000": 1000, "-1": -1, "1001": -1, "five": -1,
		"": -1} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := addedRounds(own)
		if want < 0 {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%q gave %d, %v", text, n, err)
			}
		} else if n != want || err != nil {
			t.Errorf("%q gave %d, %v", text, n, err)
		}
	}
}

// The first digests are those of sha256sum: of 32 zero bytes, then of that.
func TestChain(t *testing.T) {
	for rounds, want := range map[int]string{
		1: "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925",
		2: "2b32db6c2c0a6235fb1397e8225ea85e0f0e6e8c7b126d0016ccbde0e667151e",
	} {
		if got := digestChain(rounds); hex.EncodeToString(got[:]) != want {
			t.Errorf("after %d rounds %x, want %s", rounds, got, want)
		}
	}
}

// Half more work takes half more time.
func TestExtraIsWork(t *testing.T) {
	least := func(rounds int) time.Duration {
		d := time.Hour
		for range 40 {
			from := time.Now()
			digestChain(rounds)
			d = min(d, time.Since(from))
		}
		return d
	}
	var ratio float64
	for range 20 { // noise makes either time too long, never too short
		if ratio = float64(least(Rounds*3/2)) / float64(least(Rounds)); ratio > 1.45 && ratio < 1.55 {
			return
		}
	}
	t.Errorf("half more work takes %.3f times the time", ratio)
}
