import base64, hashlib, hmac, time

def verify(headers, body, secrets, now=time.time):
    """Returns the ID of the event, or raises. body has the bytes as they have arrived."""
    id, stamp, sent = (headers["webhook-" + name] for name in ("id", "timestamp", "signature"))
    sent = [s[3:] for s in sent.split(" ") if s.startswith("v1,")]
    valid = False
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mac = hmac.new(key, f"{id}.{stamp}.".encode() + body, hashlib.sha256)
        want = base64.b64encode(mac.digest()).decode()
        for s in sent:
            valid |= hmac.compare_digest(want, s)
    if not valid or "." in id or len(sent) > 20 or abs(now() - int(stamp)) > 300:
        raise ValueError("the webhook is not verified")
    return id
