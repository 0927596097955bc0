package main

import (
	"encoding/json"
	"strings"
	"testing"

	"bakeoff/measure/corpus"
	storage "bakeoff/measure/estimate"
)

func TestCompressEstimate(t *testing.T) {
	dir := t.TempDir()
	if err := (corpus.Mail{Files: 60, Seed: 1}).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := Main(t.Context(), []string{"compress-estimate", dir, "--json", "--algorithm", "gzip-6,lzjb,zlib:9",
		"--record", "128KiB"}, strings.NewReader(""), &out, &errs, func(string) string { return "" })
	var e storage.Estimate
	if err := json.Unmarshal([]byte(out.String()), &e); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out.String(), errs.String())
	}
	if e.Files != 60 || len(e.Rows) != 3 || e.Rows[0].Ratio <= e.Rows[1].Ratio {
		t.Errorf("%+v", e)
	}
	out.Reset()
	if code := Main(t.Context(), []string{"compress-estimate", dir, "--algorithm", "gzip-6,lz4"}, strings.NewReader(""),
		&out, &errs, func(string) string { return "" }); code != 0 || !strings.Contains(out.String(), "gzip-6") ||
		!strings.Contains(out.String(), "not compared with a file system") ||
		!strings.Contains(out.String(), "within 0.5 % of zlib's") {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
	out.Reset()
	if code := Main(t.Context(), []string{"compress-estimate", dir, "--algorithm", "zstd:3,zstd:11", "--zstd", "none"},
		strings.NewReader(""), &out, &errs, func(string) string { return "" }); code != 0 ||
		!strings.Contains(out.String(), "apt-get install zstd") {
		t.Errorf("without zstd: exit code %d\n%s", code, out.String())
	}
	for want, args := range map[int][]string{2: {dir, "--record", "100"}, 5: {dir + "/none"},
		1: {dir, "--zstd", "none", "--algorithm", "zstd:4"}} {
		if code := Main(t.Context(), append([]string{"compress-estimate"}, args...), strings.NewReader(""), &out, &errs,
			func(string) string { return "" }); code != want {
			t.Errorf("%v: exit code %d, want %d", args, code, want)
		}
	}
}
