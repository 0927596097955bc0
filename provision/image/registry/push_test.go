package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// answers is a registry that gives the same answer to every request, page after page.
type answers struct {
	body  []byte
	link  string // of the next page
	asked int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader("{}"))}
	if r.URL.Path != "/v2/" {
		a.asked++
		resp.Body = io.NopCloser(bytes.NewReader(a.body))
		if a.link != "" {
			resp.Header.Set("Link", a.link)
		}
	}
	return resp, nil
}

func lists(ctx context.Context, a *answers) (tags, repositories []string, err error) {
	c := client(a)
	tags, terr := c.Tags(ctx, "registry.example", "a/b")
	repositories, rerr := c.Repositories(ctx, "registry.example")
	if terr == nil {
		terr = rerr
	}
	return tags, repositories, terr
}

// A list that does not end is refused; so is a next page on another host.
func TestLongLists(t *testing.T) {
	for link, want := range map[string]string{
		`</v2/a/b/tags/list?n=2&last=b>; rel="next"`:             "lists more than",
		`<https://other.example/v2/_catalog?last=b>; rel="next"`: "registry.example",
	} {
		a := &answers{body: []byte(`{"tags":["1"]}`), link: link}
		if _, err := client(a).Tags(t.Context(), "registry.example", "a/b"); err == nil ||
			!strings.Contains(err.Error(), want) || a.asked > maxPages+1 {
			t.Errorf("%s: %v after %d pages", link, err, a.asked)
		}
	}
	long := fmt.Sprintf(`{"tags":[%q]}`, strings.Repeat("x", 5<<20))
	if _, _, err := lists(t.Context(), &answers{body: []byte(long)}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "has more than") {
		t.Errorf("a long answer: %.200v", err)
	}
}

func FuzzLists(f *testing.F) {
	f.Add([]byte(`{"name":"a/b","tags":["1","latest"],"repositories":["a/b","c"]}`))
	f.Add([]byte(`{"tags":["../x",""],"repositories":["../x","A b"]}`))
	f.Add([]byte(`{"tags":null}`))
	f.Add([]byte(`{"tags":[1]}`))
	f.Add([]byte(`{"tags":`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tags, repositories, err := lists(t.Context(), &answers{body: b})
		if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Lab) { // Lab: the answer was cut off
			t.Errorf("%v", err)
		}
		for _, n := range append(tags, repositories...) {
			if n == "" || strings.ContainsAny(n, " ?#\x00\n") || strings.Contains(n, "..") && strings.Contains(n, "/") {
				t.Errorf("%q", n)
			}
		}
	})
}
