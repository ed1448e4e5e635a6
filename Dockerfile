# A container image with the light install: frn-tui, frn classify, enroll and explain. The image needs neither torch nor a GPU.
#   docker build -t frn .
#   docker run --rm -it frn                                              starts the app on the samples
#   docker run --rm -v "$PWD:/photos" frn frn classify birds new.jpg
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
COPY requirements-light.txt /tmp/
RUN pip install --no-cache-dir --requirement /tmp/requirements-light.txt
COPY . /tmp/frn
RUN pip install --no-cache-dir --no-deps /tmp/frn && rm -rf /tmp/frn \
    && useradd --create-home frn && mkdir /photos && chown frn /photos
USER frn
WORKDIR /photos
ENV TERM=xterm-256color COLORTERM=truecolor
CMD ["frn-tui"]
