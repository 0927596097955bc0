package registry

import (
	"net/url"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestNextPage(t *testing.T) {
	at, err := url.Parse("https://registry.example/v2/_catalog")
	if err != nil {
		t.Fatal(err)
	}
	for link, want := range map[string]string{
		`</v2/_catalog?n=2&last=b>; rel="next"`:                     "https://registry.example/v2/_catalog?n=2&last=b",
		`<https://registry.example/v2/_catalog?last=b>; rel="next"`: "https://registry.example/v2/_catalog?last=b",
		`<https://other.example/v2/_catalog?last=b>; rel="next"`:    "",
		`<http://registry.example/v2/_catalog?last=b>; rel="next"`:  "",
		`</v2/_catalog>; rel="prev"`:                                "",
		`nonsense`:                                                  "",
		"":                                                          "",
	} {
		if got := nextPage(at, link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}

func FuzzLists(f *testing.F) {
	f.Add([]byte(`{"name":"a/b","tags":["1","latest"],"repositories":["a/b","c"]}`))
	f.Add([]byte(`{"tags":["../x",""],"repositories":["../x","A b"]}`))
	f.Add([]byte(`{"tags":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tags, terr := ParseTags(b)
		repositories, rerr := ParseCatalog(b)
		for _, err := range []error{terr, rerr} {
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%v", err)
			}
		}
		for _, n := range append(tags, repositories...) {
			if n == "" || strings.ContainsAny(n, " ?#\x00\n") || strings.Contains(n, "..") && strings.Contains(n, "/") {
				t.Errorf("%q", n)
			}
		}
	})
}
