// Browsers start no worker from file://, and the search of the site is one.  Where the page is a
// file, a hidden frame runs the worker's script instead.  Both get copies of messages, as ever.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        setTimeout(() => { this.dispatchEvent(event); this.onmessage?.(event); });
      };
      const script = inside.document.createElement("script");
      script.src = url;
      this.loaded = new Promise(done => script.onload = done);
      inside.document.body.append(script);
    }
    async postMessage(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      await this.loaded;
      this.frame.contentWindow?.dispatchEvent(event);
    }
    terminate() { this.frame.remove(); }
  };
}
