# Serves the Django view of docs/receivers.md.
import os
from wsgiref.simple_server import make_server

import django
from django.conf import settings

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="test",
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
)
django.setup()

from django.core.wsgi import get_wsgi_application
from django.urls import path
import views

urlpatterns = [path("webhooks", views.webhooks)]
make_server("127.0.0.1", int(os.environ["PORT"]), get_wsgi_application()).serve_forever()
