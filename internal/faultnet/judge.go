package faultnet

// neutral lets all bytes pass. A judge embeds it for the direction that it does not judge.
type neutral struct{}

func (neutral) toServer(_ *link, data []byte) verdict { return verdict{pass: len(data)} }
func (neutral) toClient(data []byte, _ bool) verdict  { return verdict{pass: len(data)} }

// countdown cuts once, after a number of bytes has passed.
type countdown struct {
	left  int64
	spent bool
}

func (c *countdown) take(data []byte) verdict {
	if c.spent || int64(len(data)) < c.left {
		c.left -= int64(len(data))
		return verdict{pass: len(data)}
	}
	c.spent = true
	return verdict{pass: int(c.left), cut: true}
}

type cutAfterClient struct{ countdown }

func (j *cutAfterClient) toServer(_ *link, data []byte) verdict { return j.take(data) }
func (*cutAfterClient) toClient(data []byte, first bool) verdict {
	return neutral{}.toClient(data, first)
}

type cutAfterServer struct{ countdown }

func (*cutAfterServer) toServer(l *link, data []byte) verdict  { return neutral{}.toServer(l, data) }
func (j *cutAfterServer) toClient(data []byte, _ bool) verdict { return j.take(data) }

// finder looks for a pattern on each connection separately, and finds it once.
type finder struct {
	pattern string
	windows map[*link]*window
	spent   bool
}

func newFinder(pattern string) finder {
	return finder{pattern: pattern, windows: make(map[*link]*window)}
}

func (f *finder) find(l *link, data []byte) (int, bool) {
	if f.spent {
		return 0, false
	}
	w := f.windows[l]
	if w == nil {
		w = &window{pattern: []byte(f.pattern)}
		f.windows[l] = w
	}
	end, found := w.find(data)
	f.spent = found
	return end, found
}

type cutBefore struct {
	neutral
	finder
}

func (j *cutBefore) toServer(l *link, data []byte) verdict {
	end, found := j.find(l, data)
	if !found {
		return verdict{pass: len(data)}
	}
	// The pattern may have begun in an earlier piece, which was forwarded already.
	return verdict{pass: max(0, end-len(j.pattern)), cut: true}
}

type swallowAnswer struct {
	neutral
	finder

	until string
}

func (j *swallowAnswer) toServer(l *link, data []byte) verdict {
	v := verdict{pass: len(data)}
	if _, found := j.find(l, data); found {
		v.swallow = newSwallow(j.until)
	}
	return v
}

type withhold struct {
	neutral

	pattern string
	windows map[*link]*window
}

func (j *withhold) toServer(l *link, data []byte) verdict {
	v := verdict{pass: len(data)}
	w := j.windows[l]
	if w == nil {
		w = &window{pattern: []byte(j.pattern)}
		j.windows[l] = w
	}
	if _, found := w.find(data); found {
		v.swallow = &swallow{forever: true}
	}
	return v
}

type dropEvery struct {
	neutral

	k, seen int64
	until   string
}

func (j *dropEvery) toClient(data []byte, first bool) verdict {
	if first {
		if j.seen++; j.seen%j.k == 0 {
			return verdict{swallow: newSwallow(j.until)}
		}
	}
	return verdict{pass: len(data)}
}
